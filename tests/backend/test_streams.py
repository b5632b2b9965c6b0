"""Results larger than caches, whose stores are non-temporal: the same from both tiers, wherever rows begin.

A non-temporal store changes no bit; that a store is one, and from which size on, is a mark in the loops of a
target.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

ROWS = 9000
LARGE = 9_000_000  # elements: more than 32 MiB
TARGETS = ["tcc", "cc"]
MARK = " nontemporal="


def scale_rows(x: Tensor, y: Tensor) -> Tensor:
    """Rows of an odd number of elements: few begin where a line of the cache does."""
    return x * y + 1


def normalise(x: Tensor, y: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) * y


def moments(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Two results of one loop, which are whole lines of different elements."""
    return x * 0.9 + y, (x * x).double()


def shifted(x: Tensor, y: Tensor) -> Tensor:
    """A stencil, whose rows begin anywhere."""
    return x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2]


def beside(x: Tensor, y: Tensor) -> Tensor:
    """The parts of one result."""
    return torch.cat([x, y.expand(x.shape[0], -1)[:, :5], x * 2], 1).relu()


def stored_twice(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """A value that two results have, of which one strip alone could not store both."""
    z = x * y
    return z, torch.cat([z, z], 1), z - y


def of_three(x: Tensor, y: Tensor) -> Tensor:
    """Three tensors at once: what is loaded is prefetched."""
    return (x * y).exp() * x.flip(1) + x.roll(1)


def channels(x: Tensor, y: Tensor) -> Tensor:
    """Rows so short that several are one tile."""
    return (x.reshape(-1, 3) - y[:3]) / y[3:6]


def of_five(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Two results of short rows, each with a number of its own; few of them begin where a line does."""
    rows = x.reshape(-1)[1:-1][: x.numel() // 8 * 5].reshape(-1, 5)
    z = rows - rows[:, :1]
    return z * y[:5], z.double()


FUNCTIONS = [scale_rows, normalise, moments, shifted, beside, stored_twice, of_three, channels, of_five]


def both(
    function: Callable[..., object], dynamic: bool, *inputs: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    found = []
    for tier in ("tcc", "gcc"):
        torch._dynamo.reset()
        result = torch.compile(function, backend="dlc", dynamic=dynamic, options={"tier": tier})(*inputs)
        found.append([result] if isinstance(result, Tensor) else list(result))
    return found


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_tiers_agree(function: Callable[..., object], dynamic: bool) -> None:
    width = 1 + LARGE // ROWS
    x, y = torch.randn(ROWS, width), torch.randn(width)
    expected = function(x, y)
    expected = [expected] if isinstance(expected, Tensor) else expected
    for slow, settled, eager in zip(*both(function, dynamic, x, y), expected, strict=True):
        assert torch.equal(slow, settled)
        torch.testing.assert_close(settled, eager)


def test_lines_of_wide_elements() -> None:
    x = torch.randn(LARGE // 2 + 3, dtype=torch.float64)
    for found in both(lambda x: x * 2 + 1, False, x):
        assert torch.equal(found[0], x * 2 + 1)


def test_what_is_written_over_goes_the_usual_way(capfd: pytest.CaptureFixture[str]) -> None:
    def step(x: Tensor) -> Tensor:
        return x.mul_(2)

    x = torch.ones(LARGE)
    torch.compile(step, backend="dlc", options={"tier": "tcc", "dump": "tcc_loops,cc_loops"})(x)
    assert torch.equal(x, torch.full((LARGE,), 2.0))
    text = capfd.readouterr().err
    assert text.count("store ") == 2 and MARK not in text


@pytest.mark.parametrize(
    ("elements", "streams"), [(LARGE, True), (LARGE * 2 // 3, True), (LARGE // 2, False)]
)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("function", [torch.exp, lambda x: x + 1])
def test_the_size_decides(
    function: Callable[[Tensor], Tensor],
    elements: int,
    streams: bool,
    target: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    torch._dynamo.reset()
    torch.compile(function, backend="dlc", options={"tier": "tcc", "dump": f"{target}_loops"})(
        torch.ones(elements)
    )
    text = capfd.readouterr().err
    assert "store " in text and (MARK in text) == streams


def test_what_memory_waits_for_goes_the_usual_way(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.ones(LARGE)
    options = {"tier": "tcc", "dump": "cc_loops"}
    torch.compile(lambda x: x.erf().tanh(), backend="dlc", options=options)(x)
    text = capfd.readouterr().err
    assert "store " in text and MARK not in text


@pytest.mark.parametrize(("width", "prefetched"), [(512, False), (25_000, True), (300_000, False)])
def test_the_next_row_is_prefetched(width: int, prefetched: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """From the loop that stores past the caches, where a row stays in the second of them."""
    x, y = torch.randn(LARGE // width, width), torch.randn(width)
    torch._dynamo.reset()
    options = {"tier": "tcc", "dump": "cc_loops"}
    compiled = torch.compile(normalise, backend="dlc", dynamic=False, options=options)
    torch.testing.assert_close(compiled(x, y), normalise(x, y))
    stored = capfd.readouterr().err.rpartition(" vector")[2]
    assert "store " in stored and (" prefetch_rows=1" in stored) == prefetched
