"""The layers that the transformers share."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def split_heads(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class Attention(nn.Module):
    """Attention of `heads` heads over x, or over a context; `groups` heads of keys and values."""

    def __init__(self, width: int, heads: int, groups: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.groups = heads, groups or heads
        narrow = width // heads * self.groups
        self.q = nn.Linear(width, width, bias=bias)
        self.k = nn.Linear(width, narrow, bias=bias)
        self.v = nn.Linear(width, narrow, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def project(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v = (split_heads(f(context), self.groups) for f in (self.k, self.v))
        return split_heads(self.q(x), self.heads), k, v

    def forward(self, x: Tensor, context: Tensor | None = None, causal: bool = False) -> Tensor:
        q, k, v = self.project(x, x if context is None else context)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


class BiasedAttention(Attention):
    """Attention written out, with something added to the scores: a mask or a bias of positions."""

    def __init__(self, width: int, heads: int, bias: bool = True, scaled: bool = True) -> None:
        super().__init__(width, heads, bias=bias)
        self.scale = (width // heads) ** -0.5 if scaled else 1.0

    def forward(self, x: Tensor, added: Tensor, context: Tensor | None = None) -> Tensor:  # type: ignore[override]
        q, k, v = self.project(x, x if context is None else context)
        scores = q @ k.transpose(-1, -2) * self.scale + added
        return self.out((torch.softmax(scores, dim=-1) @ v).transpose(1, 2).flatten(2))


class FeedForward(nn.Sequential):
    """Two linear maps with a gelu and a dropout between them."""

    def __init__(self, width: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width), nn.Dropout(dropout))


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    """A transformer layer that normalises first, with attention to a context if asked."""

    def __init__(self, width: int, heads: int, causal: bool = False, cross: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.attention, self.attention_norm = Attention(width, heads), nn.LayerNorm(width)
        self.mlp, self.mlp_norm = FeedForward(width, 4 * width), nn.LayerNorm(width)
        self.cross = Attention(width, heads) if cross else None
        self.cross_norm = nn.LayerNorm(width) if cross else None

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), causal=self.causal)
        if self.cross is not None and self.cross_norm is not None:
            x = x + self.cross(self.cross_norm(x), context)
        return x + self.mlp(self.mlp_norm(x))
