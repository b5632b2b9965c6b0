"""Lengths that change: a kernel that was compiled for any length beside one that was compiled for one.

The two take turns at one length. Before, the first was called with others, so that its sizes are symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

import dlc
from benchmarks.attention import causal, whole
from benchmarks.measure import interleaved
from benchmarks.peers import PEERS, own_code
from benchmarks.report import Row

LENGTHS = (33, 64, 100, 128, 192, 300, 384, 700, 1024)
HEADS, HEAD, WIDTH = 8, 64, 256


@dataclass(frozen=True)
class Case:
    """What is called, and of its first operand the axis whose length changes; None: all sizes change."""

    name: str
    call: Callable[..., Any]
    make: Callable[[int], tuple[Tensor, ...]]
    axis: int | None


def layers(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.linear(F.layer_norm(x, (WIDTH,)), w, b))


def heads(length: int) -> tuple[Tensor, ...]:
    return torch.randn(3, 1, HEADS, length, HEAD).unbind()


def rows(length: int) -> tuple[Tensor, ...]:
    return torch.randn(length, WIDTH), torch.randn(3 * WIDTH, WIDTH), torch.randn(3 * WIDTH)


def cases(only: str) -> Iterable[Case]:
    made = (
        Case("attention, whole", whole, heads, 2),
        Case("attention, causal, one size", causal, heads, 2),
        Case("attention, causal, all sizes", causal, heads, None),
        Case("norm, linear, gelu", layers, rows, 0),
    )
    return [case for case in made if only in case.name]


def operands(case: Case, length: int) -> tuple[Tensor, ...]:
    made = case.make(length)
    changing = made if made[0].shape == made[1].shape else made[:1]
    for x in changing if case.axis is not None else ():
        torch._dynamo.mark_dynamic(x, case.axis)
    return made


def row(case: Case, length: int, budget: float) -> Row:
    torch._dynamo.reset()
    known = PEERS["dlc"][1](own_code(case.call), dynamic=False)
    dynamic = True if case.axis is None else None
    any_length = PEERS["sizes"][1](own_code(case.call), dynamic=dynamic)
    for other in (length + 7, length + 1):
        any_length(*operands(case, other))
    inputs = case.make(length)
    known(*inputs)
    compiled = dlc.counters()["kernels"]
    any_length(*inputs)
    assert dlc.counters()["kernels"] == compiled, "a length compiled a kernel"
    dlc.wait()
    calls = {"dlc": lambda: known(*inputs), "sizes": lambda: any_length(*inputs)}
    return replace(Row(case.name, interleaved(calls, budget)), size=str(length))


def run(only: str, budget: float) -> list[Row]:
    todo = [(case, length) for case in cases(only) for length in LENGTHS]
    return [row(case, length, budget) for case, length in tqdm(todo, disable=None, leave=False)]
