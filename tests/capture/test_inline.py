"""Functions that the table does not list, or not so: traced alone, in a graph taken directly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dlc.report import collect
from tests.capture.direct import check

G = torch.Generator().manual_seed(5)
X, Y = torch.randn(6, 8, generator=G), torch.rand(6, 8, generator=G)
CLASS = torch.randint(0, 8, (6,), generator=G)
IMAGE = torch.randn(2, 4, 6, 6, generator=G)


def losses_of_classes(x: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    return (
        F.cross_entropy(x, target),
        F.cross_entropy(x * 2, target, reduction="sum", label_smoothing=0.1),
        F.cross_entropy(x, target, weight=x[0].abs(), ignore_index=3),
        F.nll_loss(x.log_softmax(1), target, reduction="none") + 1,
        F.multi_margin_loss(x, target),
    )


def losses(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        F.mse_loss(x, y),
        F.l1_loss(x, y, reduction="none") * 2,
        F.smooth_l1_loss(x, y),
        F.huber_loss(x, y, delta=0.5),
        F.binary_cross_entropy_with_logits(x, y),
        F.binary_cross_entropy(y, x.sigmoid()),
        F.kl_div(x, y, reduction="batchmean"),
        F.triplet_margin_loss(x, y, x * 2),
        F.poisson_nll_loss(x, y),
        F.soft_margin_loss(x, y.sign()),
    )


def norms(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        x.norm(),
        x.norm(dim=1, keepdim=True) + 1,
        torch.linalg.vector_norm(x, dim=-1),
        torch.cosine_similarity(x, y),
        F.pairwise_distance(x, y),
        torch.dist(x, y),
    )


def of_images(x: Tensor) -> tuple[Tensor, ...]:
    return (
        F.instance_norm(x) * 2,
        F.interpolate(x, scale_factor=2, mode="bilinear"),
        F.local_response_norm(x, 2),
        F.channel_shuffle(x, 2) + 1,
    )


def from_nothing(x: Tensor) -> tuple[Tensor, ...]:
    a, b = torch.meshgrid(x[0], x[:, 0], indexing="ij")
    return x + torch.linspace(0, 1, 8), a * b, x * torch.eye(8)[:6], x + torch.logspace(0, 1, 8)


def rearranged(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (
        torch.hstack([x, y]),
        torch.vstack([x, y]) + 1,
        x.rot90() * 2,
        x.movedim(0, 1) + 1,
        x.diff(),
        torch.block_diag(x, y),
        torch.kron(x[:2], y[:2]),
        x.tensor_split(3, 1)[1] * 2,
    )


def sums(x: Tensor) -> tuple[Tensor, ...]:
    return x.trace() + 1, x.nansum(1), torch.count_nonzero(x), x.float_power(2), x.quantile(0.5), x.nanmean(1)


CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "losses of classes": (losses_of_classes, (X, CLASS)),
    "losses": (losses, (X, Y)),
    "norms": (norms, (X, Y)),
    "of images": (of_images, (IMAGE,)),
    "from nothing": (from_nothing, (X,)),
    "rearranged": (rearranged, (X, Y)),
    "sums": (sums, (X,)),
}


@pytest.mark.parametrize("name", CASES)
def test_traced_alone(name: str) -> None:
    function, args = CASES[name]
    check(function, *args)


@pytest.mark.parametrize("name", ["losses of classes", "norms", "rearranged"])
def test_traced_for_any_size(name: str) -> None:
    function, args = CASES[name]
    check(function, *args, dynamic=True)


def test_modules() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(4, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.ReLU(), nn.LocalResponseNorm(2)
    )
    check(model.eval(), IMAGE)


def test_one_program_for_all_sizes() -> None:
    def function(x: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(x * 2, target) + F.mse_loss(x, x.roll(1, 0))

    with collect() as reports, torch.no_grad():
        compiled = torch.compile(function, backend="dlc", dynamic=True, options={"strict": True})
        for count in (6, 9, 2):
            x, target = torch.randn(count, 8, generator=G), torch.randint(0, 8, (count,), generator=G)
            torch.testing.assert_close(compiled(x, target), function(x, target))
    assert [r["kind"] for r in reports] == ["direct"]


def test_random_numbers_are_left() -> None:
    """They are drawn in the order and number in which eager draws them."""

    def function(x: Tensor) -> Tensor:
        return torch.rrelu(x, training=True) + 1

    torch._dynamo.reset()
    with collect() as reports, torch.no_grad():
        compiled = torch.compile(function, backend="dlc")
        torch.manual_seed(1)
        mine = compiled(X)
        torch.manual_seed(1)
        torch.testing.assert_close(mine, function(X))
    assert [r["kind"] for r in reports] == ["inference"]


def test_buffers_that_change() -> None:
    """A batch norm in training writes to its running mean; nothing in its operator's schema says so."""

    def function(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return F.batch_norm(x, mean, var, training=True) + torch.linspace(0, 1, 8)

    check(function, X, torch.zeros(8), torch.ones(8))
