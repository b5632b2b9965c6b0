"""Products, convolutions and attention of operands of every layout are as near as eager's; so are gradients.

The random programs are those of tests/layouts.py: each shard, so each commit, has others. Attention of whole
modules has heads of the sizes of panels and ones beside them, and lengths below and above a tile's.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.dynamo import leave_guards_untimed
from tests.layouts import MORE, case, check
from tests.models.runs import assert_steps, exact_model, step
from tests.shards import Shard
from tests.tolerance import Run

PARTS, EACH = 6, 16  # programs of a run


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int, shard: Shard) -> None:
    leave_guards_untimed()
    first = 1 + (shard.number * PARTS + part) * EACH
    for seed in range(first, first + EACH):
        made = case(seed)
        try:
            check(made)
        except Exception as error:
            pytest.fail(f"python -m tests.layouts --seed {seed}\n{made}\n{type(error).__name__}: {error}")
    torch._dynamo.reset()


class Attention(nn.Module):
    """Of a sequence to itself, or of its last steps to all of it."""

    def __init__(self, width: int, heads: int, last: int | None) -> None:
        super().__init__()
        self.inner, self.last = nn.MultiheadAttention(width, heads, batch_first=True), last

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x if self.last is None else x[:, -self.last :], x, x, need_weights=False)[0]


def encoder(width: int, heads: int) -> nn.Module:
    return nn.TransformerEncoderLayer(
        width, heads, 2 * width, dropout=0.0, batch_first=True, activation="gelu"
    )


MODULES: dict[str, Callable[[int, int], nn.Module]] = {
    "itself": lambda width, heads: Attention(width, heads, None),
    "last steps": lambda width, heads: Attention(width, heads, 3),
    "encoder": encoder,
}


@pytest.mark.in_turn(24)
@pytest.mark.parametrize("length", [1, 2, 7, 17, 32, 40])
@pytest.mark.parametrize("head", [8, 16, 24, 32, 33, 64])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", MODULES)
def test_modules_with_heads(
    name: str, batch: int, head: int, length: int, compiler: Callable[..., Any]
) -> None:
    """Gradients of all parameters; products of dlc's own in every second of them."""
    torch.manual_seed(head * length)
    heads = 2
    model = MODULES[name](heads * head, heads)
    compiled, exact = copy.deepcopy(model), exact_model(model)
    options = {"tier": "tcc"} | ({"products": "own"} if (head + length + batch) % 2 else {})
    call = compiler(compiled, options=options)

    def run(seed: int) -> Run:
        x = torch.randn(batch, length, heads * head, generator=torch.Generator().manual_seed(seed))
        return step(compiled, call, (x,)), step(model, model, (x,)), step(exact, exact, (x.double(),))

    first = run(0)
    try:
        assert_steps([first])
    except AssertionError:  # of a few elements one run is luck
        assert_steps([first, *(run(seed) for seed in range(1, 1 + MORE))])
