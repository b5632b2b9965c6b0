"""Time of a call when everything is compiled: models, and a function of 64 floats."""

from collections.abc import Iterable
from typing import Any

import torch
import torch._dynamo
from torch import Tensor
from tqdm import tqdm

from benchmarks.measure import interleaved
from benchmarks.peers import available, ready
from benchmarks.report import Row
from examples.programs import MODELS

Case = tuple[str, Any, tuple[Tensor, ...]]


def model_cases(only: str, small: bool) -> Iterable[Case]:
    for m in MODELS.values():
        if only in m.name:
            yield m.name, m.build(small), m.arguments(small)


def little(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x * 2 + y) - x


def overhead_cases(only: str) -> Iterable[Case]:
    x, y = torch.randn(2, 64).unbind()
    yield "64 floats", little, (x, y)


def row(case: Case, peers: list[str], budget: float) -> Row:
    """Compiles the case for all peers, then lets them take turns."""
    name, target, inputs = case
    torch._dynamo.reset()
    calls = {peer: ready(peer, target, inputs) for peer in available(peers) if peer != "xla"}
    return Row(name, interleaved(calls, budget))


def run(cases: Iterable[Case], peers: list[str], budget: float) -> list[Row]:
    listed = list(cases)
    with tqdm(listed, disable=None, leave=False) as line:
        rows = []
        for case in line:
            line.set_description(case[0])
            rows.append(row(case, peers, budget))
    return rows
