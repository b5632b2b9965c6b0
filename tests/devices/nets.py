"""Small models as small machines have them: a keyword spotter, digits, a language model, a function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import dlc


class Spotter(nn.Module):
    """Twelve words in 49 frames of ten coefficients, in the manner of DS-CNN (https://arxiv.org/abs/1711.07128)."""

    def __init__(self, channels: int = 16, blocks: int = 2) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, (10, 4), stride=2, padding=(5, 1))
        self.depth = nn.ModuleList(
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels) for _ in range(blocks)
        )
        self.point = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(blocks))
        self.last = nn.Linear(channels, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(x))
        for depth, point in zip(self.depth, self.point, strict=True):
            x = F.relu(point(F.relu(depth(x))))
        return F.softmax(self.last(x.mean((2, 3))), -1)


class Digits(nn.Module):
    """Ten digits in images of 28 x 28."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 4, 5, stride=2), nn.Conv2d(4, 8, 3, stride=2)
        self.last = nn.Linear(200, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.relu(self.two(F.relu(self.one(x)))).flatten(1))


class Language(nn.Module):
    """One block of a transformer over 32 tokens."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.tokens, self.places = nn.Embedding(32, width), nn.Embedding(24, width)
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        b, t = ids.shape
        x = self.tokens(ids) + self.places.weight[:t]
        q, k, v = self.qkv(self.norm[0](x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
        x = x + self.down(F.gelu(self.up(self.norm[1](x))))
        return self.norm[2](x) @ self.tokens.weight.T


def waves(x: Any, y: Any) -> Any:
    """A function of NumPy, in float64: its square root, sine and logarithm are the program's own."""
    return np.sqrt(x * x + y * y) * np.sin(3 * x) + np.log1p(np.exp(-np.abs(y)))


def spotter() -> tuple[Any, tuple[Any, ...], Any]:
    return Spotter().eval(), (torch.randn(1, 1, 49, 10),), None


def digits() -> tuple[Any, tuple[Any, ...], Any]:
    return Digits().eval(), (torch.randn(1, 1, 28, 28),), None


def language() -> tuple[Any, tuple[Any, ...], Any]:
    sizes = {0: torch.export.Dim("B", max=4), 1: torch.export.Dim("T", min=2, max=24)}
    return Language().eval(), (torch.randint(0, 32, (2, 7)),), [sizes]


def of_numpy() -> tuple[Any, tuple[Any, ...], Any]:
    return waves, (np.ones(37), np.ones(37)), None


MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...], Any]]] = {
    "spotter": spotter, "digits": digits, "language": language, "numpy": of_numpy
}  # fmt: skip


def saved(model: Any, args: tuple[Any, ...], dynamic: Any, folder: Path) -> dlc.files.model.Model:
    dlc.save(model, folder / "model.dlc", args, dynamic_shapes=dynamic)
    return dlc.load(folder / "model.dlc")


def load(name: str, folder: Path) -> dlc.files.model.Model:
    """The model as dlc.load has it."""
    torch.manual_seed(0)
    return saved(*MODELS[name](), folder)
