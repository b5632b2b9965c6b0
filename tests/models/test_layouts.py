"""Models whose parameters, buffers and inputs lie in memory in any way: the shard chooses which."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from examples.programs import MODELS
from tests.layouts import dense_copies, relaid, relay
from tests.models.runs import assert_steps, exact_inputs, exact_model, run_forward, train
from tests.shards import Shard
from tests.tolerance import Run, assert_runs

TRIES = 20
SEEDS = 3


def laid(name: str, shard: Shard) -> tuple[nn.Module, list[tuple[Tensor, ...]]]:
    """A model and inputs that eager takes: some models ask for views that a layout does not allow."""
    for k in range(TRIES):
        seed = f"{name}/{shard.number}/{k}"
        model = MODELS[name].build(small=True)
        relay([*model.parameters(), *model.buffers()], random.Random(seed))
        given = []
        for numbers in range(SEEDS):
            choose = random.Random(seed)
            drawn = MODELS[name].arguments(small=True, seed=numbers)
            given.append(tuple(relaid(t, choose) for t in drawn))
        try:
            model(*given[0])
        except RuntimeError:
            continue
        return model, given
    raise AssertionError(f"eager takes none of {TRIES} layouts of {name}")


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("name", MODELS)
def test_forward(name: str, compiler: Callable[..., Any], shard: Shard) -> None:
    model, given = laid(name, shard)
    compiled = compiler(model, dynamic=False)
    with torch.no_grad():
        assert_runs([run_forward(model, compiled, inputs) for inputs in given])


@pytest.mark.in_turn(16)
@pytest.mark.parametrize("name", MODELS)
def test_gradients(name: str, compiler: Callable[..., Any], shard: Shard) -> None:
    """Of weights that lie otherwise; they and the inputs of the exact run are dense."""
    model, given = laid(name, shard)
    runs = list[Run]()
    for inputs in given:
        exact = train(exact_model(model), exact_inputs(dense_copies(inputs)))
        actual = train(model, inputs, lambda m: compiler(m, dynamic=False))
        runs.append((actual, train(model, inputs), exact))
    assert_steps(runs)
