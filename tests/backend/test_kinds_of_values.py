"""Everything that torch.compile takes and returns beside plain tensors: kinds and values are eager's."""

import dataclasses
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dlc

pytestmark = pytest.mark.in_turn(2)

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Both:
    a: Tensor
    b: Any = None


#: Functions of a tensor of two axes that give one kind of result each.
RESULTS: dict[str, Callable[[Tensor], Any]] = {
    "none": lambda x: (x.sin(), None),
    "only none": lambda x: None,
    "named tuple": lambda x: Pair(x.sin(), x.shape[0]),
    "dataclass": lambda x: Both(x.sin(), "text"),
    "dataclass of none": lambda x: Both(x.cos()),
    "dict": lambda x: {"a": x.sin(), 3: [x + 1, {"b": None}]},
    "ordered": lambda x: OrderedDict(a=x.sin(), b=(x, [])),
    "nested": lambda x: [(x.sin(), {"k": Pair([x * 2], (None, 1.5))}), ()],
    "slice": lambda x: (x.sin(), slice(1, None, 2)),
    "size": lambda x: (x.sin(), x.shape, x.t().size()),
    "dtype": lambda x: (x.sin(), x.dtype, torch.int8),
    "device": lambda x: (x.sin(), x.device),
    "return type": lambda x: torch.max(x.sin(), 1),
    "sorted": lambda x: {"s": torch.sort(x, 0)},
    "numbers": lambda x: (x.sin(), 1, 2.5, True, "s", 1j),
    "sizes": lambda x: (x.sin(), x.shape[0] * 2, x.numel() > 3),
    "numpy scalar": lambda x: (x * np.float32(2), np.float64(3).item()),
    "same twice": lambda x: (lambda y: (y, y, [y]))(x.sin()),
    "argument": lambda x: (x, x.sin(), x),
    "view": lambda x: (x[0], x.t()),
    "list of rows": lambda x: [row.sin() for row in x.unbind(1)],
}


def same(got: Any, expected: Any) -> None:
    assert type(got) is type(expected), (type(got), type(expected))
    if isinstance(expected, Tensor):
        assert got.requires_grad == expected.requires_grad
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
    elif dataclasses.is_dataclass(expected):
        same(vars(got), vars(expected))
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            same(got[key], expected[key])
    elif isinstance(expected, np.ndarray):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
        assert got.dtype == expected.dtype
    elif isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            same(a, b)
    else:
        assert got == expected


def leaves(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value] if value.requires_grad else []
    parts = vars(value) if dataclasses.is_dataclass(value) else value
    if isinstance(parts, dict):
        return [leaf for part in parts.values() for leaf in leaves(part)]
    return [leaf for part in parts for leaf in leaves(part)] if isinstance(parts, (tuple, list)) else []


def check(compiled: Callable[[Any], Any], fn: Callable[[Any], Any], make: Callable[[Tensor], Any]) -> None:
    """Two sizes, with and without gradients."""
    for rows in (3, 5):
        for wants in (False, True):
            x = torch.linspace(-2, 2, rows * 4).reshape(rows, 4).requires_grad_(wants)
            got, expected = compiled(make(x)), fn(make(x))
            same(got, expected)
            ours, theirs = leaves(got), leaves(expected)
            if theirs:
                grads = [torch.autograd.grad(sum(t.square().sum() for t in ts), x) for ts in (ours, theirs)]
                same(*grads)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", RESULTS)
def test_results(compiler: Callable[..., Any], name: str, dynamic: bool) -> None:
    check(compiler(RESULTS[name], dynamic=dynamic), RESULTS[name], lambda x: x)


#: What is made of a tensor for an argument, and a function of it.
ARGUMENTS: dict[str, tuple[Callable[[Tensor], Any], Callable[[Any], Any]]] = {
    "none": (lambda x: (x, None), lambda a: a[0].sin() if a[1] is None else a[0]),
    "named tuple": (lambda x: Pair(x, 2), lambda a: a.a.sin() * a.b),
    "dataclass": (lambda x: Both(x, 2.5), lambda a: a.a.sin() * a.b),
    "dict": (lambda x: {"a": x, "b": [x + 1, 3]}, lambda a: a["a"].sin() * a["b"][0] + a["b"][1]),
    "nested": (lambda x: [(x, {"k": Pair([x * 2], None)})], lambda a: a[0][1]["k"].a[0].sin() + a[0][0]),
    "slice": (lambda x: (x, slice(1, None, 2)), lambda a: a[0].sin()[a[1]]),
    "size": (lambda x: (x, x.shape), lambda a: a[0].sin().reshape(a[1][1], a[1][0])),
    "dtype": (lambda x: (x, torch.float64), lambda a: a[0].sin().to(a[1])),
    "device": (lambda x: (x, x.device), lambda a: a[0].sin() + torch.ones(4, device=a[1])),
    "return type": (lambda x: torch.max(x, 1), lambda a: a.values.sin() + a.indices),
    "numpy scalar": (lambda x: (x, np.float32(2)), lambda a: a[0].sin() * a[1]),
    "numpy array": (lambda x: (x, np.ones(4, np.float32)), lambda a: a[0].sin() + torch.from_numpy(a[1])),
    "generator": (lambda x: (row for row in x.unbind(0)), lambda a: sum(row.sin() for row in a)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(compiler: Callable[..., Any], name: str, dynamic: bool) -> None:
    make, fn = ARGUMENTS[name]
    check(compiler(fn, dynamic=dynamic), fn, make)


@pytest.mark.parametrize("name", RESULTS)
def test_results_of_jit(name: str) -> None:
    """As eager, or refused with what the function returned."""
    fn = RESULTS[name]
    try:
        dlc.jit(fn)(torch.ones(2, 4))
    except (TypeError, dlc.CaptureError) as error:
        assert len(str(error)) > 20
        return
    check(dlc.jit(fn), fn, lambda x: x)
