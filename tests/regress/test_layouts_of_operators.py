"""Strides of results, of operands that lie in every way: as eager's, static and with sizes as symbols."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tolerance import strides


def laid(kind: str, shape: Sequence[int]) -> Tensor:
    """Random numbers of the shape, in memory as the kind says."""
    n = len(shape)
    if kind == "transposed":
        return torch.randn(*shape[:-2], shape[-1], shape[-2]).mT
    if kind == "moved":
        return torch.randn(shape[1], shape[0], *shape[2:]).transpose(0, 1)
    if kind == "last":
        order = [0, *range(2, n), 1]
        return torch.randn([shape[k] for k in order]).permute([0, n - 1, *range(1, n - 1)])
    if kind == "sliced":
        return torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2]
    return torch.randn(shape[0], 1, *shape[2:]).expand(*shape)


KINDS = ("transposed", "moved", "last", "sliced", "expanded")
SHAPES: dict[int, list[tuple[int, ...]]] = {
    3: [(2, 4, 4), (3, 2, 6)],
    4: [(2, 4, 4, 6), (3, 2, 4, 4), (2, 1, 4, 4)],
    5: [(2, 4, 2, 4, 4)],
}


def grid(x: Tensor, *sizes: int) -> Tensor:
    n = x.shape[0]
    for size in sizes:
        n *= size
    return torch.linspace(-1, 1, n * len(sizes)).view(x.shape[0], *sizes, len(sizes))


OPERATORS: dict[str, tuple[int, Callable[..., Any]]] = {
    "nearest_1d": (3, lambda x: F.interpolate(x, scale_factor=2.0)),
    "nearest_1d_then": (3, lambda x: F.interpolate(x, size=9).relu() + 1),
    "nearest_exact_1d": (3, lambda x: F.interpolate(x, size=9, mode="nearest-exact")),
    "linear_1d": (3, lambda x: F.interpolate(x, size=9, mode="linear")),
    "nearest_2d": (4, lambda x: F.interpolate(x, scale_factor=2.0)),
    "nearest_exact_2d": (4, lambda x: F.interpolate(x, size=(9, 7), mode="nearest-exact")),
    "bilinear": (4, lambda x: F.interpolate(x, size=(9, 7), mode="bilinear")),
    "bicubic": (4, lambda x: F.interpolate(x, size=(9, 7), mode="bicubic")),
    "antialias": (4, lambda x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True)),
    "area": (4, lambda x: F.interpolate(x, size=(3, 4), mode="area")),
    "nearest_3d": (5, lambda x: F.interpolate(x, scale_factor=2.0)),
    "trilinear": (5, lambda x: F.interpolate(x, size=(3, 5, 4), mode="trilinear")),
    "max_pool_1d": (3, lambda x: F.max_pool1d(x, 2)),
    "max_pool_1d_then": (3, lambda x: F.max_pool1d(x, 2).exp()),
    "max_pool_1d_indices": (3, lambda x: F.max_pool1d(x, 2, return_indices=True)),
    "avg_pool_1d": (3, lambda x: F.avg_pool1d(x, 2)),
    "max_pool_2d": (4, lambda x: F.max_pool2d(x, 2, return_indices=True)),
    "avg_pool_2d": (4, lambda x: F.avg_pool2d(x, 2)),
    "max_pool_3d": (5, lambda x: F.max_pool3d(x, 2)),
    "avg_pool_3d": (5, lambda x: F.avg_pool3d(x, 2)),
    "adaptive_avg_1d": (3, lambda x: F.adaptive_avg_pool1d(x, 2)),
    "adaptive_avg_2d": (4, lambda x: F.adaptive_avg_pool2d(x, 2)),
    "adaptive_avg_2d_whole": (4, lambda x: F.adaptive_avg_pool2d(x, 1)),
    "adaptive_avg_3d": (5, lambda x: F.adaptive_avg_pool3d(x, 2)),
    "adaptive_max_2d": (4, lambda x: F.adaptive_max_pool2d(x, 2)),
    "pixel_shuffle": (4, lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2)),
    "pixel_unshuffle": (4, lambda x: F.pixel_unshuffle(x, 2)),
    "channel_shuffle": (4, lambda x: F.channel_shuffle(x, x.shape[1])),
    "grid_sample_2d": (4, lambda x: F.grid_sample(x, grid(x, 3, 4), align_corners=False)),
    "grid_sample_3d": (5, lambda x: F.grid_sample(x, grid(x, 3, 2, 2), align_corners=False)),
    "pad": (4, lambda x: F.pad(x, (1, 2, 0, 1))),
    "pad_reflect": (4, lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
    "pad_replicate": (4, lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate")),
    "pad_circular": (4, lambda x: F.pad(x, (1, 1, 1, 1), mode="circular")),
    "pad_reflect_3d": (5, lambda x: F.pad(x, (1,) * 6, mode="reflect")),
    "pad_replicate_3d": (5, lambda x: F.pad(x, (1,) * 6, mode="replicate")),
    "pad_circular_3d": (5, lambda x: F.pad(x, (1,) * 6, mode="circular")),
    "roll": (4, lambda x: x.roll(1, 2)),
    "roll_two": (4, lambda x: torch.roll(x, (1, 2), dims=(2, 3))),
    "roll_flat": (4, lambda x: x.roll(1)),
    "flip": (4, lambda x: x.flip(1, 3)),
    "rot90": (4, lambda x: torch.rot90(x, 1, (2, 3))),
    "cat": (4, lambda x: torch.cat([x, x], 1)),
    "cat_mixed": (4, lambda x: torch.cat([x, x.contiguous()], 1)),
    "cat_mixed_rows_first": (4, lambda x: torch.cat([x.contiguous(), x], 1)),
    "cat_3d": (5, lambda x: torch.cat([x, x], 2)),
    "batch_norm_training": (4, lambda x: F.batch_norm(x, None, None, training=True)),
    "batch_norm_1d": (3, lambda x: F.batch_norm(x, None, None, training=True)),
    "group_norm": (4, lambda x: F.group_norm(x, 1)),
    "instance_norm": (4, lambda x: F.instance_norm(x)),
    "layer_norm": (4, lambda x: F.layer_norm(x, x.shape[-1:])),
    "zeros_like": (4, torch.zeros_like),
    "full_like": (5, lambda x: torch.full_like(x, 2)),
    "like_times": (4, lambda x: torch.ones_like(x) * x),
    "add_rows": (4, lambda x: x + x.contiguous()),
    "rows_add": (4, lambda x: x.contiguous() + x),
    "bias": (4, lambda x: torch.ones(x.shape[1], 1, 1) * x),
    "where": (4, lambda x: torch.where(x > 0, x, x.contiguous())),
    "clone": (4, lambda x: x.clone()),
    "clone_last": (4, lambda x: x.clone(memory_format=torch.channels_last)),
    "to": (4, lambda x: x.to(torch.float64)),
    "softmax": (4, lambda x: x.softmax(1)),
    "cumsum": (4, lambda x: x.cumsum(1)),
    "sum": (4, lambda x: x.sum(1, keepdim=True)),
    "mean": (4, lambda x: x.mean((2, 3), keepdim=True)),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", OPERATORS)
def test_strides(name: str, dynamic: bool, compiler: Callable[..., Any]) -> None:
    rank, function = OPERATORS[name]
    wrong = []
    for shape in SHAPES[rank]:
        for kind in KINDS:
            x = laid(kind, shape)
            try:
                eager = function(x)
            except (RuntimeError, ValueError):  # this operator does not take the shape
                continue
            torch._dynamo.reset()
            made = compiler(function, dynamic=dynamic, options={"tier": "tcc"})(x)
            pairs = zip(*(t if isinstance(t, tuple) else (t,) for t in (made, eager)), strict=True)
            wrong += [(shape, kind, strides(a), strides(b)) for a, b in pairs if strides(a) != strides(b)]
            torch.testing.assert_close(made, eager, check_stride=False)
    assert not wrong
