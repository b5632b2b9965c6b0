"""The networks of `python -m benchmarks convolutions`, small: all of each is compiled, and near eager's."""

import copy

import pytest
import torch
import torch._dynamo
from torch import nn

from benchmarks import convolutions, processes
from benchmarks.networks import ALL, Network
from tests.capture.test_images import gradients
from tests.models.runs import run_forward
from tests.tolerance import assert_program, assert_runs

NAMES = [network.name for network in ALL]


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("products", ["auto", "own"])
@pytest.mark.parametrize("network", ALL, ids=NAMES)
def test_network(network: Network, products: str) -> None:
    torch._dynamo.reset()
    model = network.build(small=True)
    options = {"tier": "tcc", "strict": True, "products": products}
    compiled = torch.compile(model, backend="dlc", fullgraph=True, options=options)
    assert_runs([run_forward(model, compiled, network.arguments(2, small=True)) for _ in range(5)])


def images(network: Network, dynamic: bool) -> list[torch.Tensor]:
    """So large that norms of few elements do not magnify roundings; of two sizes where sizes are symbols."""
    channels, *sides = network.tiny
    larger = [side * 2 if side in (16, 32) else side for side in sides]
    made = [torch.randn(4, channels, *larger)]
    return [*made, torch.randn(3, channels, *larger[:-1], (larger[-1] + 1) // 2)] if dynamic else made


@pytest.mark.in_turn(32)
@pytest.mark.parametrize("freeze", [False, True], ids=["", "frozen"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("step", [False, True], ids=["evaluation", "step"])
@pytest.mark.parametrize("network", ALL, ids=NAMES)
def test_products_of_our_own(network: Network, step: bool, dynamic: bool, freeze: bool) -> None:
    """Results and gradients are eager's, and lie as eager's."""
    torch._dynamo.reset()
    model = network.build(small=True).train(step)
    options = {"tier": "tcc", "strict": True, "products": "own", "freeze": freeze}
    own = torch.compile(copy.deepcopy(model), backend="dlc", fullgraph=True, dynamic=dynamic, options=options)

    def values(model: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
        if step:
            model.zero_grad()
            return gradients(model, x)
        with torch.no_grad():
            return {"result": model(x)}

    for x in images(network, dynamic):
        eager, exact = values(copy.deepcopy(model), x), values(copy.deepcopy(model).double(), x.double())
        actual = values(own, x)
        assert all(actual[name].stride() == t.stride() for name, t in eager.items())
        assert_program(actual, eager, exact)


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("step", [False, True], ids=["evaluation", "step"])
def test_benchmark(step: bool) -> None:
    with torch.no_grad():
        (row,) = convolutions.run("MobileNet", ["eager", "last", "dlc"], 0.0, step=step, small=True)
    assert row.timings.keys() == {"eager", "last", "dlc"}


@pytest.mark.in_turn(8)
def test_peer_that_fails() -> None:
    """Its error is the benchmark's, with its name."""
    with (
        torch.no_grad(),
        pytest.raises(processes.Failed, match=r"(?s)^nobody: Traceback.*KeyError: 'nobody'"),
    ):
        convolutions.run("DCGAN", ["nobody"], 0.0, small=True)


@pytest.mark.parametrize("groups", [1, 4, 16])
@pytest.mark.parametrize("kind", [nn.Conv2d, nn.ConvTranspose2d])
def test_operations_of_gradients(kind: type[nn.Module], groups: int) -> None:
    """The gradients of the image and of the weight take what the convolution takes, by groups as well."""
    layer, image = kind(16, 16, 3, 2, 1, groups=groups), torch.randn(2, 16, 9, 9, requires_grad=True)
    forward = convolutions.operations(lambda: layer(image))
    assert convolutions.operations(lambda: layer(image).sum().backward()) == 3 * forward


@pytest.mark.in_turn(8)
def test_sizes_that_change() -> None:
    """One program from the second size on."""
    with torch.no_grad():
        rows = convolutions.run_sizes("ResNet", 0.0, small=True)
    assert [row.case for row in rows] == [f"ResNet-18, {side}" for side in (32, 48, 64)]
    assert all(set(row.timings) == {"dlc", "sizes"} for row in rows)
