"""Running a model in eager, in float64 or compiled, each time on a copy of its own."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from tests.tolerance import Run, assert_runs, double, named


def forward(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
    with torch.no_grad():
        return named(model(*inputs), "output")


def run_forward(model: nn.Module, compiled: Any, inputs: tuple[Tensor, ...]) -> Run:
    exact = forward(exact_model(model), exact_inputs(inputs))
    return forward(compiled, inputs), forward(model, inputs), exact


def train(
    model: nn.Module, inputs: tuple[Tensor, ...], compiler: Callable[..., Any] | None = None
) -> dict[str, Tensor]:
    """One step of a copy of the model, so that gradients and buffers start from the same state."""
    model = copy.deepcopy(model).train()
    return step(model, compiler(model) if compiler else model, inputs)


def step(model: nn.Module, call: Callable[..., Any], inputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """Outputs, gradients of the weights, and buffers after one step forward and back."""
    model.zero_grad()
    output = named(call(*inputs), "output")
    sum(t.square().mean() for t in output.values()).backward()
    gradients = {f"gradient of {n}": p.grad for n, p in model.named_parameters()}
    buffers = {f"buffer {n}": b.clone() for n, b in model.named_buffers()}
    return output | {n: g for n, g in gradients.items() if g is not None} | buffers


def assert_steps(runs: Sequence[Run]) -> None:
    """The rule for programs, for what goes forward and for gradients apart: these are less exact."""
    for gradients in (False, True):
        assert_runs([of_kind(run, gradients) for run in runs])


def of_kind(run: Run, gradients: bool) -> Run:
    actual, eager, exact = (
        {n: t for n, t in results.items() if n.startswith("gradient") == gradients} for results in run
    )
    return actual, eager, exact


def exact_model(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).double()


def exact_inputs(inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return double(inputs)


def graphs_compiled() -> int:
    """Graphs that Dynamo gave to a backend since the test began."""
    return counters["stats"]["unique_graphs"]
