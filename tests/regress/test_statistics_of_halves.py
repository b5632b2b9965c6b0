"""An operator whose result has another floating dtype than torch's rule says: it was refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_same_bits


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_running_statistics(dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    def function(x: Tensor, weight: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, ...]:
        return torch.ops.aten._batch_norm_with_update(x, weight, None, mean, var, 0.5, 1e-5)

    def results(f: Callable[..., Any]) -> list[Tensor]:
        x = torch.randn(6, 3, generator=torch.Generator().manual_seed(1)).to(dtype)
        mean, var = torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)
        return [*f(x, torch.ones(3, dtype=dtype), mean, var)[:3], mean, var]

    with torch.no_grad():
        for mine, theirs in zip(results(compiler(function)), results(function), strict=True):
            assert_same_bits(mine, theirs)


HALVES = [torch.bfloat16, torch.float16]


def _operands(dtype: torch.dtype, parameters: torch.dtype, *shape: int) -> list[Tensor]:
    x = (torch.randn(shape) * 3 + 2).to(dtype)
    return [x, *((torch.rand(shape[1]) + 0.5).to(parameters) for _ in range(4))]


def _mostly_same(mine: Tensor, theirs: Tensor) -> None:
    """The bits but for few elements, where a sum in another order is rounded to the other side."""
    assert mine.dtype == theirs.dtype
    wrong = (mine != theirs).sum().item()
    assert wrong <= max(1, theirs.numel() // 100), f"{wrong} of {theirs.numel()}"
    torch.testing.assert_close(mine, theirs, rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("shape", [(4, 6, 5, 7), (16, 6, 30), (8, 6), (3, 6, 7, 43)], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_batch_norm_uses_what_it_keeps(
    shape: tuple[int, ...], dynamic: bool, dtype: torch.dtype, compiler: Callable[..., Any]
) -> None:
    """The mean and the deviation are rounded before they are used, and of bfloat16 each step of them."""

    def f(x: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor) -> tuple[Tensor, ...]:
        made = torch.ops.aten._native_batch_norm_legit(x, w, b, mean, var, True, 0.1, 1e-5)
        return *made, torch.ops.aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)[0]

    run = compiler(f, dynamic=dynamic)
    operands = _operands(dtype, dtype, *shape)
    copies = [t.clone() for t in operands]
    with torch.no_grad():
        results = [*run(*copies), *copies[3:]], [*f(*operands), *operands[3:]]
    for mine, theirs in zip(*results, strict=True):
        _mostly_same(mine, theirs)


NORMS: dict[str, Callable[..., Any]] = {
    "layer_norm": lambda x, w: torch.ops.aten.native_layer_norm(x, [x.shape[-1]], w, w, 1e-5),
    "group_norm": lambda x, w: torch.ops.aten.native_group_norm(x, w, w, x.shape[0], x.shape[1], 8, 2, 1e-5),
    "batch_norm": lambda x, w: torch.ops.aten._native_batch_norm_legit(
        x, w, w, w * 1, w + 1, True, 0.1, 1e-5
    ),
    "batch_norm_no_stats": lambda x, w: torch.ops.aten._native_batch_norm_legit(x, w, w, True, 0.1, 1e-5),
    "batch_norm_evaluation": lambda x, w: torch.ops.aten.native_batch_norm(
        x, w, w, w, w + 1, False, 0.1, 1e-5
    ),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_statistics_are_wide_where_the_parameters_are(
    name: str, dtype: torch.dtype, compiler: Callable[..., Any]
) -> None:
    """torch's fake tensors have the dtype of the halves."""
    x, w = torch.randn(4, 8, 8).to(dtype), torch.rand(8) + 0.5
    with torch.no_grad():
        results = compiler(NORMS[name])(x, w.clone()), NORMS[name](x, w.clone())
    for mine, theirs in zip(*results, strict=True):
        assert mine.dtype == theirs.dtype
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "batch_norm"])
@pytest.mark.parametrize("parameters", ["wide", "alike"])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_gradients_by_what_was_kept(
    name: str, parameters: str, dtype: torch.dtype, compiler: Callable[..., Any]
) -> None:
    functional = torch.nn.functional
    norms: dict[str, Callable[..., Tensor]] = {
        "layer_norm": lambda x, w: functional.layer_norm(x, [6], w, w),
        "group_norm": lambda x, w: functional.group_norm(x, 2, w, w),
        "batch_norm": lambda x, w: functional.batch_norm(x, None, None, w, w, True),
    }
    x = (torch.randn(4, 6, 5, 6) * 2 + 1).to(dtype).requires_grad_()
    w = torch.randn(6).to(torch.float32 if parameters == "wide" else dtype).requires_grad_()
    weight, results = torch.linspace(-1, 1, x.numel()).view(x.shape).to(dtype), []
    for f in (compiler(norms[name]), norms[name]):
        y = f(x, w)
        results.append((y, torch.autograd.grad(y, x, weight)[0]))
    for mine, theirs in zip(*results, strict=True):
        _mostly_same(mine, theirs)
