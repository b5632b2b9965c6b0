"""Models without gradients: one length, lengths that change, and every function."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from examples.programs import FUNCTIONS, MODELS
from tests.models.runs import graphs_compiled, run_forward
from tests.tolerance import assert_like_eager, assert_runs

POINTWISE_SIZES = (4096, 1027, 64)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", MODELS)
def test_static(name: str, compiler: Callable[..., Any]) -> None:
    about = MODELS[name]
    model = about.build(small=True)
    compiled = compiler(model, dynamic=False, fullgraph=True)
    assert_runs([run_forward(model, compiled, about.arguments(small=True, seed=seed)) for seed in range(5)])


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", MODELS)
def test_lengths_that_change(name: str, compiler: Callable[..., Any]) -> None:
    """The first length compiles, the second compiles for every length, no other compiles."""
    about = MODELS[name]
    model = about.build(small=True)
    lengths = (12, 17, 9, 30, 8) if about.varies == "length" else (3, 5, 2, 9, 4)
    compiled, graphs, runs = compiler(model, fullgraph=True), [], []
    for length in lengths:
        runs.append(run_forward(model, compiled, about.arguments(small=True, length=length)))
        graphs.append(graphs_compiled())
    assert_runs(runs)
    assert graphs[1] <= graphs[0] + 1
    assert graphs[1:] == [graphs[1]] * 4, f"compiled again: {graphs} graphs at lengths {lengths}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str, compiler: Callable[..., Any]) -> None:
    function = FUNCTIONS[name]
    compiled = compiler(function.call, fullgraph=True)
    for n in POINTWISE_SIZES:
        assert_like_eager(compiled, function.call, *function.arguments(n))


def test_marked_dynamic(compiler: Callable[..., Any]) -> None:
    """A length that is marked as changing compiles once."""
    about = MODELS["gpt"]
    model = about.build(small=True)
    compiled = compiler(model, fullgraph=True)
    runs = []
    for length in (12, 17, 9):
        inputs = about.arguments(small=True, length=length)
        torch._dynamo.mark_dynamic(inputs[0], 1, min=2, max=64)
        runs.append(run_forward(model, compiled, inputs))
        assert graphs_compiled() == 1
    assert_runs(runs)
