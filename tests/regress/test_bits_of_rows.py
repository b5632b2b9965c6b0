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
