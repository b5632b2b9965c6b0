"""The gradient of a convolution's weight that is larger than its images is made by its own call, and last."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dlc.report import gather
from tests.backend.peaks import explained, step

MODELS: dict[str, Any] = {
    "rows": lambda: nn.Sequential(nn.Conv2d(64, 96, 3, padding=1), nn.ReLU(), nn.Conv2d(96, 128, 3)),
    "strides": lambda: nn.Sequential(
        nn.Conv2d(64, 64, 3, 2, 1, bias=False), nn.GELU(), nn.Conv2d(64, 128, 3)
    ),
    "transposed": lambda: nn.Sequential(
        nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 96, 3, 1, 1, bias=False)
    ),
    "groups": lambda: nn.Sequential(nn.Conv2d(64, 256, 3, groups=2), nn.ReLU(), nn.Conv2d(256, 64, 3)),
}


def trained(model: nn.Module, x: Tensor, limit: str | None) -> tuple[list[Tensor], Any]:
    torch._dynamo.reset()
    options = {"tier": "tcc", "strict": True, "products": "library", "memory_limit": limit}
    with gather.collect() as reports:
        run = torch.compile(lambda x: model(x).square().mean(), backend="dlc", options=options)
        made = step(run, x, [x, *model.parameters()])
        return made, explained(reports, options)


def masks(report: Any) -> list[str]:
    """Which gradients each call makes, in the order in which they run."""
    (backward,) = [graph for graph in report.graphs if graph.kind == "backward"]
    steps = re.findall(r"convolution_backward\.default.*?\[(\w+, \w+), \w+\]", backward.texts["kernels"])
    return [text.replace(", ", " ") for text in steps]


@pytest.mark.parametrize("name", MODELS)
def test_they_are_eagers(name: str) -> None:
    torch.manual_seed(0)
    model, x = MODELS[name](), torch.randn(1, 64, 8, 8, requires_grad=True)
    made, report = trained(model, x, "1G")
    wanted = step(lambda x: model(x).square().mean(), x, [x, *model.parameters()])
    for have, want in zip(made, wanted, strict=True):
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-6)
        assert have.stride() == want.stride()
    assert sorted(masks(report)) == ["False True"] * 2 + ["True False"] * 2


def test_a_small_weights_gradient_comes_with_the_images() -> None:
    model = nn.Sequential(nn.Conv2d(16, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 16, 3, padding=1))
    _, report = trained(model, torch.randn(1, 16, 32, 32, requires_grad=True), "1G")
    assert masks(report) == ["True True"] * 2


def test_without_a_limit_they_are_one_call() -> None:
    model = nn.Sequential(nn.Conv2d(64, 96, 3), nn.ReLU(), nn.Conv2d(96, 256, 3))
    x = torch.randn(1, 64, 5, 5, requires_grad=True)
    made, report = trained(model, x, None)
    limited, _ = trained(model, x, "1G")
    assert masks(report) == ["True True"] * 2
    assert all(map(torch.equal, made, limited))


def test_what_is_saved_is_gone_before_they_are_made() -> None:
    """Of layers whose images shrink while their weights grow, a step takes little more than the gradients."""
    layers: list[nn.Module] = [nn.Conv2d(16, 32, 3, padding=1), nn.Tanh()]
    for width in (32, 64, 128):
        layers += [nn.Conv2d(width, 2 * width, 3, 2, 1), nn.Tanh()]
    model, x = nn.Sequential(*layers), torch.randn(1, 16, 32, 32)
    _, report = trained(model, x.requires_grad_(), "1G")
    gradients = sum(p.numel() * p.itemsize for p in (x, *model.parameters()))
    saved = next(g for g in report.graphs if g.kind == "forward").partition["bytes"]
    assert report.step_peak < gradients + saved / 2
