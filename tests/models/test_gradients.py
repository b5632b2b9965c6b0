"""Models in training mode: outputs, gradients of all weights, and buffers."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from examples.programs import MODELS
from tests.models.runs import assert_steps, exact_inputs, exact_model, graphs_compiled, step, train


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("name", MODELS)
def test_static(name: str, compiler: Callable[..., Any]) -> None:
    model, runs = MODELS[name].build(small=True), []
    trained = copy.deepcopy(model).train()
    compiled = compiler(trained, dynamic=False, fullgraph=True)
    for seed in range(16):
        inputs = MODELS[name].arguments(small=True, seed=seed)
        trained.load_state_dict(model.state_dict())
        actual = step(trained, compiled, inputs)
        exact = train(exact_model(model), exact_inputs(inputs))
        runs.append((actual, train(model, inputs), exact))
    assert_steps(runs)


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("name", ["mlp", "gpt", "t5", "llama"])
def test_lengths_that_change(name: str, compiler: Callable[..., Any]) -> None:
    about = MODELS[name]
    model, graphs, runs = about.build(small=True), [], []
    compiled = compiler(model, fullgraph=True)
    for length in (12, 17, 9, 21):
        inputs = about.arguments(small=True, length=length)
        actual = step(model.train(), compiled, inputs)
        exact = train(exact_model(model), exact_inputs(inputs))
        runs.append((actual, train(model, inputs), exact))
        graphs.append(graphs_compiled())
    assert_steps(runs)
    assert graphs[1:] == [graphs[1]] * 3, f"compiled again: {graphs} graphs"
