"""What eager's kernels check, and so has to be checked by whatever stands for them: a row a check.

A row names the overload, says what is checked, and has a program that breaks it. Some rows are the other way
about: what looks like an error and is none. `python -m tests.ops.checks` prints the table.

What dtypes, sizes and numbers say is known when a graph is compiled. There a builder declines, or a
decomposition gives the operator back (csrc/capture/aten, dlc/decompositions.py): the eager operator runs, and
raises its own error. What data say is found at run time, by an index of a kind of csrc/ir/check.def. The rest
is checked where Dynamo runs the operator on fake tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

NAMES = {"torch": torch, "aten": torch.ops.aten, "F": F, "inf": math.inf, "nan": math.nan}


@dataclass(frozen=True)
class Check:
    """A program of the tensors x, y, z, .. that eager refuses, or (taken) does not."""

    overload: str  # of aten; .default where it does not say
    what: str
    program: str
    inputs: tuple[Any, ...]
    taken: bool = False

    def function(self) -> Callable[..., Any]:
        names = ", ".join("xyzuvw"[: len(self.inputs)])
        return eval(f"lambda {names}: {self.program}", dict(NAMES))  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return f"{self.overload}: {self.what}: {self.program}".replace("[", "(").replace("]", ")")


def reals(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """0.1, 0.2, .."""
    return ((torch.arange(math.prod(sizes)) + 1).reshape(sizes) * 0.1).to(dtype)


def ints(*sizes: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.arange(math.prod(sizes)).reshape(sizes).to(dtype)


def of(*values: float) -> Tensor:
    return torch.tensor(values)


class Rows(list[Check]):
    """A table under construction."""

    def refuses(self, overload: str, what: str, program: str, *inputs: Any) -> None:
        self.append(Check(overload, what, program, inputs))

    def takes(self, overload: str, what: str, program: str, *inputs: Any) -> None:
        self.append(Check(overload, what, program, inputs, taken=True))


def checks() -> list[Check]:
    from . import elementwise, losses, places, products, shapes, windows

    return [row for m in (losses, elementwise, places, shapes, windows, products) for row in m.ROWS]
