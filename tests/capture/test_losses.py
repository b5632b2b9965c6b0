"""Cross entropy and the negative log likelihood, forward and backward, are compiled whole."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc.report import collect
from tests.capture.whole import FLOATS, check_whole, spread
from tests.tolerance import assert_like_eager, assert_program, double


def scores(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).to(dtype)


X, IMAGE, ROW = scores(6, 5), scores(2, 5, 3, 4), scores(5)
CLASSES = torch.tensor([0, 4, 2, -100, 1, 4])
PIXELS = torch.randint(0, 5, (2, 3, 4), generator=torch.Generator().manual_seed(1))
WEIGHT = scores(5).abs()

LOSSES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mean": (F.cross_entropy, (X, CLASSES)),
    "sum": (lambda x, t: F.cross_entropy(x, t, reduction="sum"), (X, CLASSES)),
    "none": (lambda x, t: F.cross_entropy(x, t, reduction="none"), (X, CLASSES)),
    "weighted": (lambda x, t, w: F.cross_entropy(x, t, w), (X, CLASSES, WEIGHT)),
    "weighted sum": (lambda x, t, w: F.cross_entropy(x, t, w, reduction="sum"), (X, CLASSES, WEIGHT)),
    "weighted rows": (lambda x, t, w: F.cross_entropy(x, t, w, reduction="none"), (X, CLASSES, WEIGHT)),
    "ignored class": (lambda x, t: F.cross_entropy(x, t, ignore_index=4), (X, CLASSES.clamp(0))),
    "all ignored": (lambda x, t: F.cross_entropy(x, t * 0 - 100, reduction="sum"), (X, CLASSES)),
    "smoothed": (lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1), (X, CLASSES)),
    "pixels": (F.cross_entropy, (IMAGE, PIXELS)),
    "rows of pixels": (lambda x, t: F.cross_entropy(x, t, reduction="none"), (IMAGE, PIXELS)),
    "volume": (lambda x, t: F.cross_entropy(x[..., None], t[..., None]), (IMAGE, PIXELS)),
    "one row": (F.cross_entropy, (ROW, torch.tensor(3))),
    "likelihood": (F.nll_loss, (X, CLASSES)),
    "likelihood of pixels": (lambda x, t, w: F.nll_loss(x, t, w), (IMAGE, PIXELS, WEIGHT)),
    "likelihood of one row": (lambda x, t: F.nll_loss(x, t, reduction="none"), (ROW, torch.tensor(3))),
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str) -> None:
    function, args = LOSSES[name]
    check_whole(function, *args)
    if name != "rows of pixels":  # of other strides when torch traces it than when it runs
        check_whole(function, *spread(args), tier="gcc" if name in ("mean", "pixels") else "tcc")


@pytest.mark.parametrize("name", ["mean", "weighted", "none", "pixels", "likelihood"])
def test_loss_of_any_size(name: str) -> None:
    function, args = LOSSES[name]
    check_whole(function, *args, dynamic=True)


@pytest.mark.parametrize("name", ["mean", "weighted", "likelihood", "pixels"])
def test_loss_in_every_dtype(name: str) -> None:
    function, (x, t, *weight) = LOSSES[name]
    for dtype in FLOATS:
        check_whole(function, x.to(dtype), t, *(w.to(dtype) for w in weight))


def test_loss_of_nothing_and_of_one() -> None:
    check_whole(lambda x, t: F.cross_entropy(x, t, reduction="sum"), X[:0], CLASSES[:0])
    check_whole(lambda x, t: F.cross_entropy(x, t, reduction="none"), X[:0], CLASSES[:0])
    check_whole(F.cross_entropy, X[:1, :1], CLASSES[:1])
    mean = torch.compile(F.cross_entropy, backend="dlc", options={"strict": True})
    for rows in (0, 1):
        skipped = torch.full((rows,), -100)
        assert mean(X[:rows], skipped).isnan() and F.cross_entropy(X[:rows], skipped).isnan()


@pytest.mark.parametrize("name", LOSSES)
def test_gradient(name: str, compiler: Callable[..., Any]) -> None:
    """Forward and backward without a call."""
    function, args = LOSSES[name]

    def gradients(f: Callable[..., Any], args: Any) -> dict[str, Tensor]:
        x = args[0].clone().requires_grad_()
        loss = f(x, *args[1:])
        (loss * torch.arange(1.0, loss.numel() + 1).view_as(loss)).sum().backward()
        return {"loss": loss.detach(), "gradient": x.grad}

    with collect() as reports:
        mine = gradients(compiler(function), args)
    assert {call[0] for r in reports for call in r["calls"]} <= {"aten.clone.default"}  # twice 0
    assert_program(mine, gradients(function, args), gradients(function, double(args)))


def test_the_softmax_of_a_loss_is_not_stored(compiler: Callable[..., Any]) -> None:
    with collect() as reports, torch.no_grad():
        compiler(F.cross_entropy)(X, CLASSES)
    assert sum(r["kernel_count"] for r in reports) <= 2


@pytest.mark.parametrize("bad", [5, -1])
def test_a_class_that_is_not_there_is_an_error(bad: int, compiler: Callable[..., Any]) -> None:
    for function in (F.cross_entropy, F.nll_loss):
        with torch.no_grad(), pytest.raises(IndexError):
            compiler(function)(X, torch.tensor([0, 1, 2, bad, 0, 0]))


def test_a_head_and_its_loss(compiler: Callable[..., Any]) -> None:
    def step(x: Tensor, w: Tensor, t: Tensor) -> Tensor:
        return F.cross_entropy((x @ w.t()).flatten(0, 1), t.flatten())

    assert_like_eager(compiler(step), step, scores(2, 3, 8), scores(5, 8), CLASSES.view(2, 3))
