"""Kernels cut into blocks of rows: what is between two products, before one and after one."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, randn

import dlc
from tests.tolerance import Run, assert_runs, assert_same_bits


def softmax(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
    return (torch.softmax(torch.tanh(scores / 5) * 5, -1) @ v).transpose(1, 2)


def causal(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def windowed(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Written by hand: the last of the queries has the place of the last of the keys, and sees 40 of them."""
    place, key = torch.arange(q.shape[-2])[:, None] + (k.shape[-2] - q.shape[-2]), torch.arange(k.shape[-2])
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
    unseen = (key > place) | (key <= place - 40)
    return torch.softmax(scores.masked_fill(unseen, -math.inf), -1) @ v


def grouped(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], bias, enable_gqa=True)


def norm_before(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(F.layer_norm(x, x.shape[-1:]), w, b))


def norm_after(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(F.linear(x, w, b) + b, b.shape)


def layers(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.linear(F.relu(F.linear(x, w, b)), w.t())


def scores_and_sums(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    y = F.linear(x, w, b)
    return y, torch.logsumexp(y, -1)


ATTENTION = [softmax, causal, windowed, grouped]
LAYERS = [norm_before, norm_after, layers, scores_and_sums]


def operands(function: Callable[..., Any], size: int) -> tuple[Tensor, ...]:
    """Sizes of rows that are cut into several blocks, the last of which is not full."""
    if function in ATTENTION:
        return tuple(randn(s) for s in ((2, 4, size, 24), (2, 4, 70, 24), (2, 4, 70, 24), (size, 70)))
    return randn(3, size, 90), randn(44, 90) / 9, randn(44)


WAYS = [({"tier": "tcc"}, 1), ({"tier": "tcc"}, 2), ({"tier": "gcc"}, 2), ({"tier": "tcc", "fuel": 0}, 1)]


def ways(function: Callable[..., Any], compiler: Callable[..., Any], *args: Tensor) -> Iterator[Any]:
    """The results by both tiers, on one thread and two, and where each let is a kernel of its own."""
    threads = torch.get_num_threads()
    for options, count in WAYS:
        torch.set_num_threads(count)
        torch._dynamo.reset()
        try:
            yield compiler(function, options={"products": "own", **options}, dynamic=False)(*args)
        finally:
            torch.set_num_threads(threads)


def results(value: Any) -> dict[str, Tensor]:
    return {str(k): t for k, t in enumerate(value if isinstance(value, tuple) else (value,))}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("function", [*ATTENTION, *LAYERS], ids=lambda f: f.__name__)
def test_as_exact_as_eager(
    function: Callable[..., Any], dtype: torch.dtype, compiler: Callable[..., Any]
) -> None:
    """Of known sizes, and of sizes that change from call to call."""
    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = compiler(function, options={"products": "own", "tier": "tcc"}, dynamic=dynamic)
        runs: list[Run] = []
        for seed, size in enumerate((67, 67, 67) if not dynamic else (67, 131, 9)):
            torch.manual_seed(seed)
            args = tuple(t.to(dtype) for t in operands(function, size))
            exact = function(*(t.double() for t in args))
            runs.append((results(compiled(*args)), results(function(*args)), results(exact)))
        if not dynamic:
            assert_runs(runs)
        for run in runs if dynamic else []:  # other names for other sizes
            assert_runs([run])


@pytest.mark.parametrize("function", [softmax, norm_after, layers], ids=lambda f: f.__name__)
def test_same_bits_however_it_runs(function: Callable[..., Any], compiler: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    want, *others = ways(function, compiler, *operands(function, 67))
    for got, way in zip(others, WAYS[1:], strict=True):
        assert_same_bits(got, want, str(way))


@pytest.mark.parametrize("function", [causal, windowed], ids=lambda f: f.__name__)
@pytest.mark.parametrize("value", [None, math.inf, math.nan])
def test_what_a_mask_excludes_changes_no_bit(
    function: Callable[..., Any], value: float | None, compiler: Callable[..., Any]
) -> None:
    """Left out, or computed because 0 times infinity is NaN.  Some rows see nothing."""
    torch.manual_seed(0)
    q, k, v = randn(1, 4, 300, 8), randn(1, 4, 280, 8), randn(1, 4, 280, 8)
    if value is not None:
        v[0, 1, 270], k[0, 2, 260], q[0, 3, 9] = value, value, value
    want, *others = ways(function, compiler, q, k, v, torch.zeros(()))
    for got, way in zip(others, WAYS[1:], strict=True):
        assert_same_bits(got, want, str(way))
    seen = torch.isfinite(want)
    torch.testing.assert_close(want[seen], function(q, k, v, torch.zeros(()))[seen], rtol=1e-4, atol=1e-5)


def test_a_matrix_of_scores_is_never_in_memory(compiler: Callable[..., Any]) -> None:
    """The plan's memory for 1,000 queries and keys is less than one head's scores."""
    q, k, v = (randn(1, 8, 1000, 32) for _ in range(3))
    options = {"products": "own", "tier": "tcc"}
    plain = compiler(lambda q, k, v: softmax(q, k, v, torch.zeros(())), options=options, dynamic=False)
    torch.testing.assert_close(plain(q, k, v), softmax(q, k, v, torch.zeros(())), rtol=1e-4, atol=1e-5)
    report = dlc.explain(lambda q, k, v: softmax(q, k, v, torch.zeros(())), q, k, v, options=options)
    assert report.as_dict()["graphs"][0]["workspace"] < 4 * 1000 * 1000
