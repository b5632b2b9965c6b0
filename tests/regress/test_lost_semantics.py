"""What eager does beside computing: tangents, errors of writes, memory that is filled."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

Compiler = Callable[..., Any]


def f(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sin() + 1


def tangent(fn: Callable[..., Any], x: torch.Tensor, t: torch.Tensor) -> torch.Tensor | None:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(fn(forward_ad.make_dual(x, t))).tangent


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("capture", ["auto", "aot"])
def test_tangents_of_forward_mode(compiler: Compiler, before: bool, capture: str) -> None:
    """They became None; a graph that was compiled outside of forward mode is called there too."""
    x, t = torch.rand(4), torch.rand(4)
    compiled = compiler(f, options={"capture": capture})
    if before:
        compiled(x)
    assert torch.equal(tangent(compiled, x, t), tangent(f, x, t))
    assert torch.allclose(compiled(x), f(x))


def test_tangents_of_what_is_closed_over(compiler: Compiler) -> None:
    with forward_ad.dual_level():
        p = forward_ad.make_dual(torch.rand(4), torch.ones(4))
        got = compiler(lambda x: x * p)(torch.full((4,), 3.0))
        assert torch.equal(forward_ad.unpack_dual(got).tangent, torch.full((4,), 3.0))


def test_tangents_and_gradients(compiler: Compiler) -> None:
    """Both at once: eagerly, after a warning."""
    x, t = torch.rand(4, requires_grad=True), torch.rand(4)
    with pytest.warns(UserWarning, match="gradients and tangents"):
        got = tangent(compiler(f, options={"strict": False}), x, t)
    assert torch.equal(got, tangent(f, x, t))


def write(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


@pytest.mark.parametrize("capture", ["auto", "aot"])
@pytest.mark.parametrize("before", [False, True])
def test_writes_to_inference_tensors(compiler: Compiler, before: bool, capture: str) -> None:
    """Outside of inference mode eager refuses them."""
    with torch.inference_mode():
        x = torch.ones(4)
    compiled = compiler(write, options={"capture": capture})
    if before:
        compiled(torch.ones(4))
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        compiled(x)


def test_writes_in_inference_mode(compiler: Compiler) -> None:
    with torch.inference_mode():
        x = torch.ones(4)
        assert compiler(write)(x).tolist() == [4.0] * 4 and x.tolist() == [2.0] * 4


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.int8,
          torch.bool, torch.complex64]  # fmt: skip


@pytest.mark.parametrize("capture", ["auto", "aot"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_empty_is_filled(compiler: Compiler, deterministic: None, dtype: torch.dtype, capture: str) -> None:
    """By NaN, or the greatest integer, with deterministic algorithms."""

    def empty(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.empty(3, dtype=dtype), torch.empty_like(x, dtype=dtype), x.new_empty(2, dtype=dtype)

    x = torch.ones(3)
    for got, want in zip(compiler(empty, options={"capture": capture})(x), empty(x), strict=True):
        assert torch.equal(got, want) or (bool(torch.isnan(got).all()) and bool(torch.isnan(want).all()))
