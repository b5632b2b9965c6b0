"""A row's sum has the same bits whatever is known of how many rows there are."""

from collections.abc import Callable

import pytest
import torch


@pytest.mark.parametrize("shape", [(3, 10), (2, 15), (3, 16), (40, 12), (2, 3, 14)])
def test_few_short_rows(shape: tuple[int, ...]) -> None:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * 1000
    sums = []
    for dynamic in (False, True):
        for tier in ("tcc", "gcc"):
            torch._dynamo.reset()
            options = {"tier": tier, "strict": True}
            run = torch.compile(lambda x: x.sum(-1), backend="dlc", dynamic=dynamic, options=options)
            sums.append(run(x))
    assert all(torch.equal(one, sums[0]) for one in sums)


def _after_the_first(x: torch.Tensor) -> torch.Tensor:
    return x[:, 1:].sum(-1)


def _every_other(x: torch.Tensor) -> torch.Tensor:
    return x[:, ::2].sum(-1)


def _with_zeros(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(x, (1, 2)).softmax(-1)


def _of_halves(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.shape[0], 2, -1).sum(-1)


def _of_two_axes(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x, x + 1, x], 1).sum((1, 2))


def _of_columns(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0)


ROWS = (_after_the_first, _every_other, _with_zeros, _of_halves, _of_two_axes)


@pytest.mark.parametrize("f", [*ROWS, _of_columns], ids=lambda f: f.__name__.strip("_"))
@pytest.mark.parametrize("shape", [(4, 6), (4, 8), (40, 12), (6, 14), (4, 16), (20, 18), (40, 30), (6, 34)])
def test_rows_of_a_computed_size(f: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]) -> None:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * 1000
    x = x.t() if f is _of_columns else x
    made = []
    for dynamic in (False, True):
        torch._dynamo.reset()
        options = {"tier": "tcc", "strict": True}
        made.append(torch.compile(f, backend="dlc", dynamic=dynamic, options=options)(x))
    assert torch.equal(*made)


def _of_two_across(x: torch.Tensor) -> torch.Tensor:
    return x.sum((0, 1))


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 7, 9), (2, 8, 130), (40, 7, 9), (40, 17, 9), (600, 3, 9)])
def test_columns_of_two_axes(shape: tuple[int, ...], tier: str) -> None:
    """A named axis was put inside of one that is known to be short, as it is not where both are."""
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0)) * 1000
    made = []
    for named in ((), (0,), (0, 2), (1,), (0, 1)):
        torch._dynamo.reset()
        x = x.clone()
        for axis in named:
            torch._dynamo.mark_dynamic(x, axis)
        options = {"tier": tier, "strict": True}
        made.append(torch.compile(_of_two_across, backend="dlc", options=options)(x))
    assert all(torch.equal(one, made[0]) for one in made)
