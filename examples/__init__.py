"""Programs in plain PyTorch, and the demonstration that compiles three of them."""
