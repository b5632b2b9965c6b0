"""How dlc compares with eager PyTorch and with other compilers: `python -m benchmarks --help`."""
