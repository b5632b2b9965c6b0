"""Normalisations and what else has a reduction with arithmetic around it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.cases.case import Case, case, cube, known, matrix, normal, rows
from examples.programs.functions import layer_norm, rms_norm, softmax


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(torch.log_softmax(logits, -1), target)


def batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


def group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(x, 8, weight, bias)


def causal_softmax(scores: Tensor) -> Tensor:
    at = torch.arange(scores.shape[-1])
    return torch.softmax(scores.masked_fill(at > at[:, None], -torch.inf), -1)


def images(n: int) -> tuple[tuple[int, ...], ...]:
    """Pictures of 32 channels with their pixels in one axis, and two numbers a channel."""
    pixels = max(16, min(1024, n // 128))
    return (max(2, n // 32 // pixels), 32, pixels), (32,), (32,)


def classes(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    r, c = rows(n)
    return torch.randn(r, c, generator=g), torch.randint(c, (r,), generator=g)


def scores(n: int) -> tuple[tuple[int, int, int]]:
    heads = max(1, min(16, n // 1024))
    length = int((n // heads) ** 0.5)
    return ((heads, length, length),)


def points(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    side = int((n // 16) ** 0.5)
    return torch.randn(side, 16, generator=g), torch.randn(side, 16, generator=g)


def nearest(x: Tensor, y: Tensor) -> Tensor:
    """The distance of each point of x to the nearest one of y."""
    return (x[:, None] - y).square().sum(-1).sqrt().amin(1)


def embedding_sum(weight: Tensor, words: Tensor) -> Tensor:
    return F.embedding(words, weight).sum(1)


def sentences(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    """A table, and sentences whose words together are n elements."""
    width = min(128, max(8, n // 64))
    count = max(8, n // width)
    return torch.randn(count, width, generator=g), torch.randint(count, (count // 8, 8), generator=g)


def axes(n: int) -> tuple[tuple[int, int, int]]:
    return (cube(n, 256),)


ALONG = {
    f"{name} of axis {axis}": call
    for name, calls in {
        "mean": (lambda x: x.mean(0), lambda x: x.mean(1), lambda x: x.mean(2)),
        "var": (lambda x: x.var(0), lambda x: x.var(1), lambda x: x.var(2)),
        "norm": (lambda x: x.norm(dim=0), lambda x: x.norm(dim=1), lambda x: x.norm(dim=2)),
    }.items()
    for axis, call in enumerate(calls)
}

CASES: tuple[Case, ...] = (
    case(softmax, matrix()),
    *map(known, ("softmax_bias", "column_sum", "variance", "mean_square_error")),
    case(cross_entropy, classes),
    case(layer_norm, matrix(2)),
    case(rms_norm, matrix(1)),
    case(batch_norm, normal(images)),
    case(batch_norm, normal(images), "batch_norm gradients", train=True),
    case(group_norm, normal(images)),
    case(causal_softmax, normal(scores)),
    *(case(call, normal(axes), name) for name, call in ALONG.items()),
    case(lambda x: x.argmax(-1), matrix(), "argmax"),
    case(lambda x: x.cumsum(-1), matrix(), "cumsum"),
    case(nearest, points),
    case(embedding_sum, sentences),
)
