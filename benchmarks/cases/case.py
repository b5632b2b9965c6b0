"""What a case of the kernel benchmark is, and the shapes its inputs have."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from examples.programs import FUNCTIONS

Inputs = Callable[[int, torch.Generator], tuple[Any, ...]]
Call = Callable[..., Any]

# Elements: caches of a core; caches; memory, where one tensor of float32 has 64 MiB.
SIZES = {"l1": 1 << 11, "l2": 1 << 17, "mem": 1 << 24}
SHORT = {torch.bfloat16: "bf16", torch.float64: "f64"}


@dataclass(frozen=True)
class Case:
    """`call` on the tensors that `inputs(n, generator)` makes, the largest of about n elements.

    train: the gradients of a sum are computed too, of all inputs of floats.
    dtype: what floats are converted to.
    """

    name: str
    call: Call
    inputs: Inputs
    train: bool = False
    dtype: torch.dtype = torch.float32

    @property
    def title(self) -> str:
        return f"{self.name} {SHORT[self.dtype]}" if self.dtype in SHORT else self.name

    def of(self, dtype: torch.dtype) -> "Case":
        return replace(self, dtype=dtype)

    def arguments(self, n: int, seed: int = 0) -> tuple[Tensor, ...]:
        made = self.inputs(n, torch.Generator().manual_seed(seed))
        cast = [x.to(self.dtype) if x.is_floating_point() else x for x in made]
        return tuple(x.requires_grad_(self.train and x.is_floating_point()) for x in cast)


def case(call: Call, inputs: Inputs, name: str = "", train: bool = False) -> Case:
    return Case(name or call.__name__, call, inputs, train)


def known(name: str) -> Case:
    """A function of the examples, on the inputs it has there."""
    return Case(name, FUNCTIONS[name].call, FUNCTIONS[name].inputs)


def rows(n: int, width: int = 1024) -> tuple[int, int]:
    """A matrix of about n elements, with rows of `width` or, where that is more than a half, shorter."""
    width = min(width, max(16, n // 16))
    return n // width, width


def cube(n: int, inner: int) -> tuple[int, int, int]:
    """Three axes, the last of about `inner`, the first two of about the same length."""
    inner = min(inner, max(4, n // 64))
    side = max(1, int((n // inner) ** 0.5))
    return max(1, n // inner // side), side, inner


def normal(shapes: Callable[[int], tuple[tuple[int, ...], ...]]) -> Inputs:
    return lambda n, g: tuple(torch.randn(*s, generator=g) for s in shapes(n))


def flat(count: int) -> Inputs:
    return normal(lambda n: ((n,),) * count)


def matrix(extra: int = 0) -> Inputs:
    """A matrix, and `extra` vectors as long as its rows."""
    return normal(lambda n: (rows(n), *(rows(n)[1:],) * extra))


def uniform(low: float, high: float) -> Inputs:
    return lambda n, g: (low + (high - low) * torch.rand(n, generator=g),)
