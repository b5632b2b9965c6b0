"""Kernels cut into blocks of rows: what is between two products, before one and after one."""

import math
from collections.abc import Callable
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


ATTENTION = [softmax, causal, grouped]
LAYERS = [norm_before, norm_after, layers, scores_and_sums]


def operands(function: Callable[..., Any], size: int) -> tuple[Tensor, ...]:
    """Sizes of rows that are cut into several blocks, the last of which is not full."""
    if function in ATTENTION:
        return tuple(randn(s) for s in ((2, 4, size, 24), (2, 4, 70, 24), (2, 4, 70, 24), (size, 70)))
    return randn(3, size, 90), randn(44, 90) / 9, randn(44)


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
    """By both tiers, on one thread and two, and where each let is a kernel of its own."""
    torch.manual_seed(0)
    args, threads, want = operands(function, 67), torch.get_num_threads(), None
    for options in ({"tier": "tcc"}, {"tier": "gcc"}, {"tier": "tcc", "fuel": 0}):
        for count in (1, 2):
            torch.set_num_threads(count)
            torch._dynamo.reset()
            try:
                got = compiler(function, options={"products": "own", **options}, dynamic=False)(*args)
            finally:
                torch.set_num_threads(threads)
            want = got if want is None else want
            assert_same_bits(got, want, f"{options}, {count} threads")


def test_a_matrix_of_scores_is_never_in_memory(compiler: Callable[..., Any]) -> None:
    """The plan's memory for 1,000 queries and keys is less than one head's scores."""
    q, k, v = (randn(1, 8, 1000, 32) for _ in range(3))
    options = {"products": "own", "tier": "tcc"}
    plain = compiler(lambda q, k, v: softmax(q, k, v, torch.zeros(())), options=options, dynamic=False)
    torch.testing.assert_close(plain(q, k, v), softmax(q, k, v, torch.zeros(())), rtol=1e-4, atol=1e-5)
    report = dlc.explain(lambda q, k, v: softmax(q, k, v, torch.zeros(())), q, k, v, options=options)
    assert report.as_dict()["graphs"][0]["workspace"] < 4 * 1000 * 1000
