"""Time of a call when everything is compiled: models, a function of 64 floats, and modules that are small."""

from collections.abc import Iterable
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn
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


class Affine(nn.Module):
    """Many parameters and next to no work: what is left is reading and guarding them."""

    def __init__(self, layers: int = 50) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.LayerNorm(8) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x * layer.weight + layer.bias
        return x


def perceptron() -> nn.Module:
    """Its weights pass through the caches at each call: the next one's code and objects are gone."""
    return nn.Sequential(
        nn.Linear(784, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10)
    ).eval()


def overhead_cases(only: str) -> Iterable[Case]:
    cases = [
        ("64 floats", little, torch.randn(2, 64).unbind()),
        ("100 parameters", Affine().eval(), (torch.randn(4, 8),)),
    ]
    cases += [(f"perceptron, batch {n}", perceptron(), (torch.randn(n, 784),)) for n in (1, 64)]
    yield from (case for case in cases if only in case[0])


OF_FUNCTIONS = ("jit_numpy", "artifact", "artifact_bare")  # peers that do not take modules


def row(case: Case, peers: list[str], budget: float) -> Row:
    """Compiles the case for all peers, then lets them take turns."""
    name, target, inputs = case
    torch._dynamo.reset()
    without = {"xla", *(OF_FUNCTIONS if isinstance(target, nn.Module) else ())}
    calls = {peer: ready(peer, target, inputs) for peer in available(peers) if peer not in without}
    return Row(name, interleaved(calls, budget))


def run(cases: Iterable[Case], peers: list[str], budget: float) -> list[Row]:
    listed = list(cases)
    with tqdm(listed, disable=None, leave=False) as line:
        rows = []
        for case in line:
            line.set_description(case[0])
            rows.append(row(case, peers, budget))
    return rows
