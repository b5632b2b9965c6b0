"""Tensors that are conjugated or negated when they are read, and dtypes without arithmetic."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

X = torch.linspace(-3, 3, 48).view(6, 8).clone()
Z = torch.complex(X[:4, :4].contiguous(), X[2:, 4:].contiguous())
W = (Z * (1 - 2j)).contiguous()

DTYPES = (
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)

LAZY: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "spectrum": (lambda x: torch.fft.rfft(x).abs(), (X,)),
    "real": (lambda z: (z * z.conj() + z).real, (Z,)),
    "result": (lambda z: z.conj(), (Z,)),
    "result_of_product": (lambda z: (z * 2).conj(), (Z,)),
    "negated": (lambda z: (z * 2).conj().imag + 1, (Z,)),
    "negated_result": (lambda z: z.conj().imag, (Z,)),
    "adjoint": (lambda z, w: (z @ w.mH).abs(), (Z, W)),
    "views": (lambda z: (z.conj().t()[1:], z.conj().reshape(-1) * 2), (Z,)),
    "twice": (lambda z: (z.conj(), z.conj().sin(), z.conj().conj() + z), (Z,)),
    "angle": (lambda z: z.angle() + z.abs(), (Z,)),
}


def number(t: Any) -> Any:
    return t.view(torch.uint8) if isinstance(t, Tensor) and t.element_size() == 1 else t


def close(mine: Any, theirs: Any) -> None:
    for a, b in zip(tree_leaves(mine), tree_leaves(theirs), strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(number(a), number(b))


@pytest.mark.parametrize("name", LAZY)
def test_inside(name: str, compiler: Callable[..., Any]) -> None:
    function, args = LAZY[name]
    compiled = compiler(function, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            close(compiled(*args), function(*args))


@pytest.mark.parametrize("name", ["spectrum", "real", "adjoint", "angle", "negated"])
def test_gradients(name: str, compiler: Callable[..., Any]) -> None:
    function, args = LAZY[name]
    found = []
    for call in (compiler(function, fullgraph=True), function):
        leaves = [a.clone().requires_grad_() for a in args]
        y = call(*leaves)
        y.square().sum().backward()
        found.append([y, *(a.grad for a in leaves)])
    close(*found)


@pytest.mark.parametrize("function", [lambda z: z * 2, lambda z: z.t(), lambda z: (z, z + 1)])
def test_conjugated_input(function: Callable[..., Any], compiler: Callable[..., Any]) -> None:
    compiled = compiler(function, fullgraph=True)
    for z in (Z, W):
        close(compiled(z.conj()), function(z.conj()))


def test_negated_input(compiler: Callable[..., Any]) -> None:
    x = Z.conj().imag
    assert x.is_neg()
    close(compiler(lambda x: x * 2 + 1, fullgraph=True)(x), x * 2 + 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_without_arithmetic(dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    x = X.abs() + 1
    functions: list[tuple[Callable[..., Any], Tensor]] = [
        (lambda x: x.sin().abs().to(dtype).to(torch.float32) * 2, x),
        (lambda x: (x * 2).to(dtype), x),
        (lambda q: (q.to(torch.float32) + 1, q.view(8, 6), q[1:]), x.to(dtype)),
    ]
    for function, argument in functions:
        close(compiler(function, fullgraph=True)(argument), function(argument))


def test_quantised(compiler: Callable[..., Any]) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.quantize_per_tensor(x * 2, 0.1, 3, torch.quint8).dequantize() + 1

    close(compiler(function, fullgraph=True)(X), function(X))
