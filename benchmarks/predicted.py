"""Predicted times beside measured ones: each kernel of the functions at three sizes, and whole models.

A kernel or a model is close if its measured time is at most 25 % (a model's 20 %) away from the predicted
one. On a busy machine the figures say nothing, and the summary says so. Before what does not fit into the
caches of a core, the speeds of the machine are measured anew: how fast memory is changes within minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from math import exp, log
from typing import Any

import torch
from rich.table import Table
from torch import nn
from tqdm import tqdm

import dlc
from benchmarks import networks
from benchmarks.cases import SIZES
from benchmarks.kernels import chosen, size_name, sizes
from benchmarks.measure import seconds
from dlc.report.machine import machine_now
from examples.programs import MODELS

NEAR = {"kernel": 0.25, "model": 0.20}  # of the measured time


@dataclass(frozen=True)
class Prediction:
    kind: str  # "kernel" or "model"
    case: str
    size: str
    measured: float  # seconds
    predicted: float
    limit: str  # of a kernel
    disturbed: str

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured

    @property
    def is_near(self) -> bool:
        return abs(self.ratio - 1) <= NEAR[self.kind]

    def data(self) -> dict[str, Any]:
        return asdict(self)


def of_case(case: Any, n: int) -> Iterator[Prediction]:
    """One for the case: its kernels together; of several graphs, those of all."""
    with torch.set_grad_enabled(bool(case.train)):
        report = dlc.explain(case.call, *case.arguments(n))
    steps = [step for graph in report.graphs for step in graph.steps if step.seconds and step.predicted]
    if steps:
        largest = max(steps, key=lambda step: step.predicted)
        measured, predicted = (sum(getattr(s, name) for s in steps) for name in ("seconds", "predicted"))
        yield Prediction(
            "kernel", case.title, size_name(n), measured, predicted, largest.limit, report.disturbed
        )


def of_model(name: str, model: nn.Module, inputs: Any) -> Iterator[Prediction]:
    report = dlc.explain(model, *inputs)
    graphs = [graph for graph in report.graphs if graph.call_seconds]
    if graphs and all(graph.predicted for graph in graphs):
        measured, predicted = (sum(getattr(g, n) for g in graphs) for n in ("call_seconds", "predicted"))
        yield Prediction("model", name, "", measured, predicted, "", report.disturbed)


def models(only: str, small: bool) -> dict[str, tuple[Callable[[], nn.Module], Callable[[], Any]]]:
    """How to make each model, and its inputs."""
    made: dict[str, Any] = {
        name: (partial(m.build, small), partial(m.arguments, small)) for name, m in MODELS.items()
    }
    for net in networks.ALL:
        if net.name != "ResNet-18":  # which is resnet
            made[net.name] = (partial(net.build, small), partial(net.arguments, 1, small))
    return {name: how for name, how in made.items() if any(part in name for part in only.split(","))}


def run(only: str, size: str, small: bool) -> list[Prediction]:
    """Functions by `only` and `size`, as for `kernels`, and models by `only`."""
    jobs: list[Any] = [(c, n) for n in sizes(size) for c in chosen(only)]
    how = models(only, small)
    jobs += [(name, None) for name in how]
    found: list[Prediction] = []
    with tqdm(jobs, disable=None, leave=False) as line:
        for what, n in line:
            if n is None or n > SIZES["l2"]:
                machine_now()
            if n is not None:
                line.set_description(f"{what.title}, {size_name(n)}")
                found += of_case(what, n)
            else:
                line.set_description(what)
                with torch.no_grad():
                    found += of_model(what, *(make() for make in how[what]))
    return found


def table(rows: list[Prediction]) -> Table:
    made = Table("case", "size", "limit", title=f"predicted times, {torch.get_num_threads()} threads")
    for name in ("measured", "predicted", "predicted / measured"):
        made.add_column(name, justify="right")
    for row in rows:
        figures = (seconds(row.measured), seconds(row.predicted), f"{row.ratio:.2f}")
        made.add_row(row.case, row.size, row.limit, *figures)
    return made


def text(rows: list[Prediction]) -> str:
    """How many of each kind are close, and the geometric mean of the ratios."""
    lines = []
    for kind, near in NEAR.items():
        of = [row for row in rows if row.kind == kind]
        if of:
            mean = exp(sum(log(row.ratio) for row in of) / len(of))
            close = sum(row.is_near for row in of)
            share = f"{close} of {len(of)} {kind}s ({100 * close / len(of):.0f} %)"
            lines.append(f"{share} within {100 * near:.0f} % of the measured time, geometric mean {mean:.2f}")
    if busy := sum(bool(row.disturbed) for row in rows):
        lines.append(f"the machine was busy while {busy} of {len(rows)} were measured: these say nothing")
    return "\n".join(lines)
