"""Training's images with their channels innermost: what is saved lies so, what leaves lies as in eager."""

import copy
import re

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import dlc
from benchmarks.networks import ALL
from tests.tolerance import assert_runs


def block(inputs: int, outputs: int, size: int, **how: int) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False, **how)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6())


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = block(3, 16, 3)
        self.body = nn.Sequential(block(16, 32, 1), block(32, 32, 3, groups=32), block(32, 16, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return x + self.body(x)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(block(4, 16, 3), block(16, 16, 3, groups=16))
        self.low, self.up = block(16, 16, 3, groups=16), block(32, 8, 3)
        self.back = nn.ConvTranspose2d(16, 16, 2, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.down(x)
        low = self.low(F.max_pool2d(x, 2))
        both = torch.cat([x, self.back(low)], 1)
        return self.up(both), F.interpolate(low, scale_factor=2.0)


class Flat(nn.Module):
    """A view that only rows have, and an average whose gradient is expanded."""

    def __init__(self) -> None:
        super().__init__()
        each = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.features = nn.Sequential(block(3, 16, 3), each, nn.AvgPool2d(2), block(16, 16, 1))
        self.head = nn.Linear(1024, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.features(x)
        return self.head(y.view(y.shape[0], -1)), y.mean((2, 3))


class Wide(nn.Module):
    """The third weight is larger than its images."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            block(8, 128, 1), block(128, 128, 3, groups=128), block(128, 128, 3), block(128, 8, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def gradients(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Results, and gradients by the name of what they are of."""
    x = x.detach().requires_grad_()
    made = model(x)
    results = list(made) if isinstance(made, tuple) else [made]
    generator = torch.Generator().manual_seed(1)
    like = [torch.randn(t.shape, generator=generator).to(t.dtype) for t in results]
    torch.autograd.backward(results, like)
    found = {f"result {k}": t.detach() for k, t in enumerate(results)}
    found |= {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {name.removeprefix("_orig_mod."): t for name, t in (found | {"x": x.grad}).items()}


def check(model: nn.Module, x: Tensor, **how: bool) -> tuple[str, str]:
    """Results and gradients are eager's and lie so; the texts of the forward and the backward.

    Of several inputs: the library's convolutions of another layout sum in another order, and a norm's
    gradients amplify rounding.
    """
    torch._dynamo.reset()
    given, runs = copy.deepcopy(model), []
    compiled = torch.compile(given, backend="dlc", options={"strict": True}, **how)
    for each in (x, *(torch.randn_like(x) for _ in range(4))):
        given.load_state_dict(model.state_dict())
        given.zero_grad()
        mine = gradients(compiled, each)
        eager = gradients(copy.deepcopy(model), each)
        for name, t in eager.items():
            assert mine[name].stride() == t.stride(), name
        runs.append((mine, eager, gradients(copy.deepcopy(model).double(), each.double())))
    assert_runs(runs)

    def step(given: Tensor) -> None:
        made = model(given)
        sum(t.sum() for t in (made if isinstance(made, tuple) else (made,))).backward()

    torch._dynamo.reset()
    report = dlc.explain(step, x.detach().requires_grad_())
    forward, backward = (graph.texts["graph"] for graph in report.graphs)
    return forward, backward


def images(text: str) -> list[bool]:
    """Of each convolution's first result, and that of its gradient's: has it its channels innermost?"""
    strides = r"(?: strides=\[\S+, (\S+), .*?\])?"
    image = rf"let \w+: f32\[\w+, \S+, \S+, \S+\]{strides}.* = call [^\"]*\"aten.convol"
    return [stride == "1" for stride in re.findall(image, text)]


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("model", [Residual, UNet, Flat], ids=lambda m: m.__name__)
@pytest.mark.parametrize("dynamic", [False, True])
def test_images_of_training_have_their_channels_innermost(model: type[nn.Module], dynamic: bool) -> None:
    x = torch.randn(2, 4 if model is UNet else 3, 16, 16)
    forward, backward = check(model().train(), x, dynamic=dynamic)
    made = forward.index("{")
    assert " strides=[" in forward[:made]  # what is saved
    assert images(forward)
    assert all(images(forward))
    assert all(images(backward))


@pytest.mark.in_turn(3)
def test_a_weight_larger_than_its_images_leaves_them_in_rows() -> None:
    forward, _ = check(Wide().train(), torch.randn(2, 8, 12, 12))
    assert images(forward) == [True, True, False, True]


@pytest.mark.in_turn(3)
def test_a_model_with_its_channels_innermost_gets_its_results_so() -> None:
    last = torch.channels_last
    x = torch.randn(2, 3, 8, 8).to(memory_format=last)
    check(Residual().train().to(memory_format=last), x)


def test_random_draws_are_those_of_rows() -> None:
    model = nn.Sequential(block(3, 16, 3), nn.Dropout(0.5), block(16, 16, 3, groups=16)).train()
    other, x = copy.deepcopy(model), torch.randn(2, 3, 8, 8)
    torch.manual_seed(3)
    want = model(x)
    torch._dynamo.reset()
    torch.manual_seed(3)
    got = torch.compile(other, backend="dlc", options={"strict": True})(x)
    torch.testing.assert_close(got, want)
    assert got.stride() == want.stride()


@pytest.mark.in_turn(3)
def test_convolutions_of_all_channels_stay_as_they_are() -> None:
    model = nn.Sequential(block(3, 16, 3), nn.MaxPool2d(2), block(16, 16, 3)).train()
    forward, backward = check(model, torch.randn(2, 3, 16, 16))
    assert images(forward) == [False, False]
    assert not any(images(backward))


@pytest.mark.in_turn(3)
def test_the_gradient_of_a_pool_lies_as_its_image() -> None:
    """The scatter's axes are the image's in memory: the norm's gradient reads it along the channels."""
    last = torch.channels_last
    layers = (block(3, 16, 3), nn.MaxPool2d(3, 2, 1), block(16, 16, 3))
    model = nn.Sequential(*layers).train().to(memory_format=last)
    _, backward = check(model, torch.randn(2, 3, 16, 16).to(memory_format=last))
    assert re.search(r": f32\[2, 256, 16\] = scatter ", backward)


@pytest.mark.in_turn(3)
def test_one_convolution_alone_stays_as_it_is() -> None:
    forward, _ = check(block(16, 16, 3, groups=16).train(), torch.randn(2, 16, 8, 8))
    assert images(forward) == [False]


def steps(model: nn.Module, x: Tensor, tier: str, products: str) -> list[dict[str, Tensor]]:
    """Results and gradients on one thread and on two."""
    torch._dynamo.reset()
    options = {"tier": tier, "products": products, "strict": True}
    compiled, before = torch.compile(model, backend="dlc", options=options), torch.get_num_threads()
    made = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            model.zero_grad()
            made.append(gradients(compiled, x))
    finally:
        torch.set_num_threads(before)
    return made


def differing(a: dict[str, Tensor], b: dict[str, Tensor]) -> set[str]:
    return {name for name, t in a.items() if not torch.equal(t, b[name])}


@pytest.mark.in_turn(3)
def test_bits_of_a_step_are_those_of_both_tiers_and_of_any_threads() -> None:
    """But for gradients of the weights of the library's convolutions, which it sums by threads."""
    network = next(n for n in ALL if n.name == "MobileNet-v2")
    model, (x,) = network.build(small=True).train(), network.arguments(2, small=True)
    fast, settled = steps(model, x, "tcc", "auto"), steps(model, x, "gcc", "auto")
    for a, b in zip(fast, settled, strict=True):
        assert not differing(a, b)
    of_library = {f"{name}.weight" for name, m in model.named_modules() if isinstance(m, nn.Conv2d)}
    assert differing(*fast) <= of_library


@pytest.mark.in_turn(3)
def test_bits_of_a_step_with_products_of_our_own_are_those_of_any_threads() -> None:
    model, x = Residual().train(), torch.randn(2, 3, 16, 16)
    fast, settled = steps(model, x, "tcc", "own"), steps(model, x, "gcc", "own")
    assert not any(differing(fast[0], other) for other in (fast[1], *settled))
