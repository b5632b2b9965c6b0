"""Transformers that read language and speech: BERT, T5, Llama and Whisper, in small."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.programs.layers import (
    Attention,
    BiasedAttention,
    Block,
    FeedForward,
    RMSNorm,
)


class BertLayer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.norm1 = BiasedAttention(width, heads), nn.LayerNorm(width)
        self.mlp, self.norm2 = FeedForward(width, 4 * width, dropout), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class BERT(nn.Module):
    """An encoder with a mask of padding, segments, and a pooled first token."""

    def __init__(
        self, vocabulary: int = 1000, layers: int = 6, width: int = 256, heads: int = 4,
        window: int = 512, dropout: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.token, self.segment = nn.Embedding(vocabulary, width), nn.Embedding(2, width)
        self.position, self.norm = nn.Embedding(window, width), nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(BertLayer(width, heads, dropout) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: Tensor, segments: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.token(tokens) + self.segment(segments)
        x = self.norm(x + self.position(torch.arange(tokens.shape[1])))
        added = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(torch.float32).min
        for layer in self.layers:
            x = layer(x, added)
        return x, torch.tanh(self.pooler(x[:, 0]))


class PositionBias(nn.Module):
    """T5's bias of scores: one number a head for each bucket of distances."""

    def __init__(self, heads: int, both_ways: bool, buckets: int = 32, far: int = 128) -> None:
        super().__init__()
        self.bias, self.both_ways, self.buckets, self.far = (
            nn.Embedding(buckets, heads), both_ways, buckets, far,
        )  # fmt: skip

    def bucket(self, distance: Tensor) -> Tensor:
        """Near distances have a bucket each; far ones share, in steps that grow by powers."""
        count, base = self.buckets, torch.zeros_like(distance)
        if self.both_ways:
            count //= 2
            base, distance = (distance > 0).long() * count, distance.abs()
        else:
            distance = -distance.clamp(max=0)
        near = count // 2
        ratio = torch.log(distance.clamp(min=1).float() / near) / math.log(self.far / near)
        far = (near + (ratio * (count - near)).long()).clamp(max=count - 1)
        return base + torch.where(distance < near, distance, far)

    def forward(self, queries: int, keys: int) -> Tensor:
        distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
        return self.bias(self.bucket(distance)).permute(2, 0, 1)[None]


class T5Layer(nn.Module):
    def __init__(self, width: int, heads: int, decoder: bool) -> None:
        super().__init__()
        self.attention = BiasedAttention(width, heads, bias=False, scaled=False)
        self.norm1, self.norm2, self.norm3 = RMSNorm(width), RMSNorm(width), RMSNorm(width)
        self.cross = BiasedAttention(width, heads, bias=False, scaled=False) if decoder else None
        self.wide, self.narrow = (
            nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor, added: Tensor, context: Tensor | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), added)
        if self.cross is not None:
            x = x + self.cross(self.norm2(x), x.new_zeros(()), context)
        return x + self.narrow(torch.relu(self.wide(self.norm3(x))))


class T5(nn.Module):
    """An encoder and a decoder with relative positions."""

    def __init__(self, vocabulary: int = 1000, layers: int = 3, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.encoder_bias, self.decoder_bias = PositionBias(heads, True), PositionBias(heads, False)
        self.encoder = nn.ModuleList(T5Layer(width, heads, False) for _ in range(layers))
        self.decoder = nn.ModuleList(T5Layer(width, heads, True) for _ in range(layers))
        self.encoder_norm, self.decoder_norm = RMSNorm(width), RMSNorm(width)
        nn.init.normal_(self.token.weight, std=0.5)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        n, m = source.shape[1], target.shape[1]
        x, bias = self.token(source), self.encoder_bias(n, n)
        for layer in self.encoder:
            x = layer(x, bias)
        context, y = self.encoder_norm(x), self.token(target)
        future = torch.ones(m, m, dtype=torch.bool).triu(1)
        bias = self.decoder_bias(m, m).masked_fill(future, float("-inf"))
        for layer in self.decoder:
            y = layer(y, bias, context)
        return F.linear(self.decoder_norm(y) * y.shape[-1] ** -0.5, self.token.weight)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns each pair (x[i], x[i + half]) by the angle of its position."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, groups, bias=False)
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.gate, self.up = (
            nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False),
        )  # fmt: skip
        self.down = nn.Linear(hidden, width, bias=False)

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a = self.attention
        q, k, v = a.project(x, x)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(a.heads // a.groups, dim=1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return a.out(y.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """RMS norm, rotary positions, SwiGLU, and fewer heads for keys and values than for queries."""

    frequency: Tensor

    def __init__(
        self, vocabulary: int = 1000, layers: int = 4, width: int = 256, heads: int = 8,
        groups: int = 2, hidden: int = 688,
    ) -> None:  # fmt: skip
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, groups, hidden) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        size = width // heads
        self.register_buffer("frequency", 10000.0 ** (-torch.arange(0, size, 2) / size))

    def forward(self, tokens: Tensor) -> Tensor:
        angle = torch.arange(tokens.shape[1])[:, None] * self.frequency
        angle = torch.cat([angle, angle], dim=-1)
        x, cos, sin = self.token(tokens), angle.cos(), angle.sin()
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class Whisper(nn.Module):
    """An encoder over a spectrogram that convolutions shorten, and a decoder that attends to it."""

    def __init__(
        self, mels: int = 80, vocabulary: int = 1000, layers: int = 2, width: int = 256,
        heads: int = 4, frames: int = 1500, window: int = 448,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.register_buffer("waves", sinusoids(frames, width))
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(window, width)
        self.encoder = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(width, heads, causal=True, cross=True) for _ in range(layers))
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    waves: Tensor

    def forward(self, spectrogram: Tensor, tokens: Tensor) -> Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(spectrogram)))).transpose(1, 2)
        x = x + self.waves[: x.shape[1]]
        for block in self.encoder:
            x = block(x)
        context = self.encoder_norm(x)
        y = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        for block in self.decoder:
            y = block(y, context)
        return F.linear(self.decoder_norm(y), self.token.weight)


def sinusoids(length: int, width: int) -> Tensor:
    """Positions as sines and cosines of falling frequency."""
    step = math.log(10000.0) / (width // 2 - 1)
    angle = torch.arange(length)[:, None] * torch.exp(-step * torch.arange(width // 2))
    return torch.cat([angle.sin(), angle.cos()], dim=1)
