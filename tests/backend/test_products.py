"""Products of the library that are called without torch's dispatcher: they have eager's bits."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import dlc
from tests.backend.jitted import jit

LIBRARY = {"products": "library"}


def linear(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(F.linear(x, w, b))


def addmm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(torch.addmm(b, x, w.t()))


def mm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(torch.mm(x, w.t()))


def both(function: Any) -> tuple[Any, Any]:
    """By torch.compile, whose graph is of functions, and by dlc.jit, whose graph is of operators."""
    torch._dynamo.reset()
    return torch.compile(function, backend="dlc", options=LIBRARY | {"tier": "tcc"}), jit(function, **LIBRARY)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "sizes", [(5, 24), (1, 24), (2, 3, 24), (1, 1, 24), (2, 3, 4, 24), (0, 24), (2, 0, 24)]
)
def test_linear_has_eagers_bits(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    x, w, b = torch.randn(sizes).to(dtype), torch.randn(40, 24).to(dtype), torch.randn(40).to(dtype)
    expected = linear(x, w, b)
    for call in both(linear):
        for _ in range(2):
            result = call(x, w, b)
            assert torch.equal(result, expected)
            assert result.stride() == expected.stride()


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("function", [linear, addmm, mm])
def test_products_of_other_layouts(function: Any) -> None:
    for m, k, n in (5, 24, 40), (1, 300, 7), (33, 64, 1):
        for x in torch.randn(m, k), torch.randn(k, m).t(), torch.randn(m, 2 * k)[:, ::2]:
            for w in torch.randn(n, k), torch.randn(k, n).t():
                b = torch.randn(n)
                for call in both(function):
                    assert torch.equal(call(x, w, b), function(x, w, b))


def test_operands_without_a_kernel_before() -> None:
    def f(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.linear(x, w, b)

    x, w = torch.randn(2, 3, 4).transpose(0, 1), torch.randn(5, 4)
    negated = torch.complex(torch.randn(3, 4), torch.randn(3, 4)).conj().imag
    assert negated.is_neg()
    for b in torch.randn(5), torch.randn(1):
        for given in x, negated:
            expected = f(given, w, b)
            assert torch.equal(torch.compile(f, backend="dlc", options=LIBRARY)(given, w, b), expected)


def test_who_listens_to_the_dispatcher_hears_of_products() -> None:
    x, w, b = torch.randn(5, 24), torch.randn(40, 24), torch.randn(40)
    call = torch.compile(linear, backend="dlc", options=LIBRARY)
    call(x, w, b)
    with torch.profiler.profile() as seen:
        call(x, w, b)
    assert any("addmm" in event.key for event in seen.key_averages())
    with torch.utils.flop_counter.FlopCounterMode(display=False) as flops:
        call(x, w, b)
    assert flops.get_total_flops() == 2 * 5 * 24 * 40


@pytest.mark.in_turn(3)
def test_gradients_and_inference_mode() -> None:
    x, w, b = torch.randn(5, 24), torch.randn(40, 24), torch.randn(40)
    call = jit(linear, **LIBRARY)
    with torch.inference_mode():
        assert call(x, w, b).is_inference()
    w.requires_grad_()
    result = call(x, w, b)
    result.sum().backward()
    got = w.grad
    w.grad = None
    linear(x, w, b).sum().backward()
    assert got is not None
    torch.testing.assert_close(got, w.grad)
    dlc.wait()
