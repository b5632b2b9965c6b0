"""Writes to inputs, and inputs that are results themselves, in graphs that are taken directly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.capture.direct import check, check_indirect, run

G = torch.Generator().manual_seed(4)
X, Y = torch.randn(4, 6, generator=G), torch.randn(4, 6, generator=G)
ROWS, COUNT = torch.tensor([2, 0]), torch.tensor(1)


def whole(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x * 2


def by_index(x: Tensor, y: Tensor) -> Tensor:
    x[1:, 0] = 3.0
    return x + y


def through_a_view(x: Tensor, y: Tensor) -> Tensor:
    x.t()[0].mul_(2)
    return y + x


def inplace(x: Tensor, y: Tensor) -> Tensor:
    return F.relu(x, inplace=True) + y


def constants(x: Tensor, y: Tensor) -> Tensor:
    x.zero_()
    y.fill_(2)
    return x + y


def old_values(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    old = x.clone()
    x.copy_(y)
    return old, x.clone()


def exchanged(x: Tensor, y: Tensor) -> Tensor:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return x - y


def several_times(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    y.sub_(x)
    x[0] = y[1]
    return x.sum(0)


def back_again(x: Tensor, y: Tensor) -> Tensor:
    y.copy_(y * 1)
    x.copy_(x)
    return x + y


def itself(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.add_(1), y.to(torch.float32)


def same(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.contiguous(), x + y


def positions(x: Tensor, y: Tensor) -> Tensor:
    z = x + 1
    z[y.argmax(0)] = x[0, 0]
    return z


def positions_of_an_input(x: Tensor, y: Tensor) -> Tensor:
    x[:, ROWS] = y[:, ROWS]
    return x + y


CASES = {
    f.__name__: f
    for f in (
        whole, by_index, through_a_view, inplace, constants, old_values, exchanged, several_times, back_again,
        itself, same, positions, positions_of_an_input,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_directly(name: str) -> None:
    check(CASES[name], X, Y)


@pytest.mark.parametrize("name", ["whole", "by_index", "exchanged", "itself", "positions_of_an_input"])
def test_of_any_size(name: str) -> None:
    check(CASES[name], X, Y, dynamic=True)


def stored(cache: Tensor, count: Tensor, x: Tensor) -> Tensor:
    """As a static cache of transformers keeps keys: behind those that are there."""
    at = torch.arange(x.shape[0]) + count
    count.add_(x.shape[0])
    cache.index_copy_(0, at, x)
    return cache.sum(0) + count


def test_a_cache() -> None:
    check(stored, torch.zeros(8, 6), COUNT, X)
    check(stored, torch.zeros(8, 6), COUNT, X, dynamic=True)


def test_positions_outside_raise() -> None:
    compiled = torch.compile(stored, backend="dlc", options={"strict": True})
    with torch.no_grad(), pytest.raises(Exception, match="index"):
        compiled(torch.zeros(8, 6), torch.tensor(7), X)


def test_a_buffer() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(6))

        def forward(self, x: Tensor) -> Tensor:
            self.seen.add_(x.sum(0))
            return x * self.seen

    mine, theirs = Counter(), Counter()
    compiled = torch.compile(mine, backend="dlc", options={"strict": True, "capture": "direct"})
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(X), theirs(X))
    torch.testing.assert_close(mine.seen, theirs.seen)


@pytest.mark.parametrize("inference", [False, True], ids=["no_grad", "inference"])
def test_writes_are_counted(inference: bool) -> None:
    """Autograd refuses a backward through what was written to since."""
    with torch.inference_mode(inference):
        x, y = X.clone(), Y.clone()
    with torch.no_grad(), torch.inference_mode(inference):
        _, _, reports = run(whole, (x, y), "direct")
        compiled = torch.compile(whole, backend="dlc", options={"strict": True, "capture": "direct"})
        before = None if inference else x._version
        compiled(x, y)
    assert [r["kind"] for r in reports] == ["direct"]
    assert inference or (x._version > before and y._version == 0)


def doubled(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    return x + y


def parts(z: Tensor) -> tuple[Tensor, Tensor]:
    return z[:3], z[2:]


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], str]] = {
    "shared": (doubled, parts(torch.randn(5, 6)), "shares its storage with another"),
    "transposed": (whole, (torch.randn(6, 4).t(), Y), "not dense"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_goes_through_aot(name: str) -> None:
    function, args, reason = REFUSED[name]
    assert reason in check_indirect(function, *args)
