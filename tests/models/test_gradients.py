"""Models in training mode: outputs, gradients of all weights, and buffers."""

from collections.abc import Callable
from typing import Any

import pytest

from examples.programs import MODELS
from tests.models.runs import assert_step, exact_inputs, exact_model, graphs_compiled, step, train


@pytest.mark.parametrize("name", MODELS)
def test_static(name: str, compiler: Callable[..., Any]) -> None:
    model, inputs = MODELS[name].build(small=True), MODELS[name].arguments(small=True)
    exact = train(exact_model(model), exact_inputs(inputs))
    actual = train(model, inputs, lambda m: compiler(m, dynamic=False, fullgraph=True))
    assert_step(actual, train(model, inputs), exact)


@pytest.mark.parametrize("name", ["mlp", "gpt", "t5", "llama"])
def test_lengths_that_change(name: str, compiler: Callable[..., Any]) -> None:
    about = MODELS[name]
    model, graphs = about.build(small=True), []
    compiled = compiler(model, fullgraph=True)
    for length in (12, 17, 9, 21):
        inputs = about.arguments(small=True, length=length)
        actual = step(model.train(), compiled, inputs)
        exact = train(exact_model(model), exact_inputs(inputs))
        assert_step(actual, train(model, inputs), exact)
        graphs.append(graphs_compiled())
    assert graphs[1:] == [graphs[1]] * 3, f"compiled again: {graphs} graphs"
