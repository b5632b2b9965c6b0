"""A GPT-2 that reads characters, and what is needed to let it read and write a text."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.programs.layers import Block


class GPT(nn.Module):
    """The decoder of GPT-2; the map from the last layer to the vocabulary is the embedding's."""

    def __init__(
        self, vocabulary: int = 96, layers: int = 6, width: int = 256, heads: int = 8, window: int = 512
    ) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(window, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)


def encode(text: str) -> Tensor:
    """Characters as numbers below 96: newline, then the printable ones of ASCII, `?` for others."""
    codes = (ord(c) - 31 if " " <= c <= "~" else 0 if c == "\n" else 32 for c in text)
    return torch.tensor(list(codes))


def decode(tokens: Tensor) -> str:
    return "".join("\n" if t == 0 else chr(t + 31) for t in tokens.tolist())
