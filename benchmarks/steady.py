"""Time of a call when everything is compiled: models, a function of 64 floats, and modules that are small.

Of models each peer has a process of its own.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks import processes
from benchmarks.measure import interleaved
from benchmarks.peers import available, ready
from benchmarks.report import Row
from examples.programs import MODELS

Case = tuple[str, Any, tuple[Tensor, ...]]


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


def taking(peers: Iterable[str], modules: bool) -> list[str]:
    """Those that can run the case here."""
    without = {"xla", *(OF_FUNCTIONS if modules else ())}
    return [peer for peer in available(peers) if peer not in without]


def row(case: Case, peers: list[str], budget: float) -> Row:
    """Compiles the case for all peers, then lets them take turns."""
    name, target, inputs = case
    torch._dynamo.reset()
    calls = {peer: ready(peer, target, inputs) for peer in taking(peers, isinstance(target, nn.Module))}
    return Row(name, interleaved(calls, budget))


def run(cases: Iterable[Case], peers: list[str], budget: float) -> list[Row]:
    listed = list(cases)
    with tqdm(listed, disable=None, leave=False) as line:
        rows = []
        for case in line:
            line.set_description(case[0])
            rows.append(row(case, peers, budget))
    return rows


def model(name: str, small: bool, peer: str) -> tuple[list[Callable[[], Any]], None]:
    """In the process of a peer."""
    return [ready(peer, MODELS[name].build(small), MODELS[name].arguments(small))], None


def run_models(only: str, peers: list[str], budget: float, small: bool) -> list[Row]:
    rows = []
    with tqdm([name for name in MODELS if only in name], disable=None, leave=False) as line:
        for name in line:
            line.set_description(name)
            makers = {peer: functools.partial(model, name, small, peer) for peer in taking(peers, True)}
            (timings,), _ = processes.interleaved(makers, budget)
            rows.append(Row(name, timings))
    return rows
