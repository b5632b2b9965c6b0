"""Random networks of convolutions compile whole, and have eager's values, layouts and gradients.

Each shard, so each commit, has other networks. How exact they are is not asked here, as a norm over few
elements amplifies rounding as much as it likes: what is looked for is wrong by the size of the values.
"""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.models.random_networks import network
from tests.shards import Shard
from tests.tolerance import assert_same_kind

EACH = 16  # networks a shard


def results(model: nn.Module, call: Any, image: Tensor, training: bool) -> dict[str, Tensor]:
    """What it makes of an image, and in training the gradients and what it keeps."""
    image = image.clone().requires_grad_(training)
    model.zero_grad()
    with torch.set_grad_enabled(training):
        made = {"output": call(image)}
        if training:
            made["output"].cos().sum().backward()
            leaves = dict(model.named_parameters()) | {"the image": image}
            made |= {f"gradient of {n}": x.grad.clone() for n, x in leaves.items() if x.grad is not None}
    return {n: x.detach() for n, x in made.items()} | {n: b.clone() for n, b in model.named_buffers()}


def assert_near(actual: Tensor, eager: Tensor, exact: Tensor, name: str) -> None:
    assert_same_kind(actual, eager, name)
    size = float(exact.abs().max())
    allowed = 64 * float((eager - exact).abs().max()) + 1e-3 * (size + 1)
    assert float((actual - exact).abs().max()) <= allowed, f"{name}: off by the size of the values, {size}"


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("k", range(EACH))
def test_network(k: int, shard: Shard) -> None:
    made = network(shard.number * EACH + k)
    if not made.runs():
        pytest.skip("eager cannot run this one either")
    compiled = copy.deepcopy(made.model)
    call = torch.compile(compiled, backend="dlc", dynamic=made.dynamic, options=made.options)
    for image in made.images:
        state = copy.deepcopy(made.model.state_dict())
        eager = results(made.model, made.model, image, made.training)
        double = copy.deepcopy(made.model).double()
        double.load_state_dict(state)
        exact = results(double, double, image.double(), made.training)
        actual = results(compiled, call, image, made.training)
        assert actual.keys() == eager.keys()
        for name, want in eager.items():
            assert_near(actual[name], want, exact[name], name)
