"""Reductions over columns of what comes from memory: the same bits from both tiers and any threads."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

FUNCTIONS: list[Callable[[Tensor], object]] = [
    lambda x: (x * x).sum(0),
    lambda x: x.var(0),
    lambda x: (x.amax(0), x.double().mean(0)),
    lambda x: x.argmax(0),
    lambda x: x.bfloat16().sum(0),
]
# Rows longer than a tile, of a tile, shorter; some whose strips are not whole; several axes.
SHAPES = [(300, 2500), (700, 1024), (700, 999), (1500, 300), (4000, 65), (40, 130, 256), (3, 5, 70_000)]


def found(
    function: Callable[[Tensor], object], x: Tensor, dynamic: bool, tier: str, threads: int
) -> list[Tensor]:
    torch._dynamo.reset()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        result = torch.compile(function, backend="dlc", dynamic=dynamic, options={"tier": tier})(x)
    finally:
        torch.set_num_threads(before)
    return [result] if isinstance(result, Tensor) else list(result)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("k", range(len(FUNCTIONS)))
def test_the_tiers_agree(k: int, shape: tuple[int, ...], dynamic: bool) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(k))
    slow = found(FUNCTIONS[k], x, dynamic, "tcc", 2)
    for threads in (1, 2):
        for a, b in zip(slow, found(FUNCTIONS[k], x, dynamic, "gcc", threads), strict=True):
            assert torch.equal(a, b)
    expected = FUNCTIONS[k](x)
    if k != 4:
        torch.testing.assert_close(slow[0], expected[0] if isinstance(expected, tuple) else expected)
