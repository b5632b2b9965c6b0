"""One index for all of no elements, or one number: it stands outside of the loops, and so did its check."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tolerance import assert_same_bits

pytestmark = pytest.mark.in_turn(2)

Checker = Callable[[Tensor, Tensor, Tensor], Tensor]

# x of 5 numbers, `none` of as many as are wanted, one index for each of them
CHECKERS: dict[str, Checker] = {
    "index": lambda x, none, at: x[at],
    "index_select": lambda x, none, at: x.index_select(0, at),
    "gather": lambda x, none, at: x.gather(0, at),
    "take": lambda x, none, at: x.take(at),
    "embedding": lambda x, none, at: F.embedding(at, x[:, None].expand(-1, 3)),
    "sum": lambda x, none, at: x[at].sum() + 1,
    "scatter": lambda x, none, at: x.scatter(0, at, 1.0),
    "scatter_add": lambda x, none, at: x.scatter_add(0, at, none),
    "scatter_reduce": lambda x, none, at: x.scatter_reduce(0, at, none, "amax"),
    "index_add": lambda x, none, at: x.index_add(0, at, none),
    "index_copy": lambda x, none, at: x.index_copy(0, at, none),
    "index_fill": lambda x, none, at: x.index_fill(0, at, 2.0),
    "index_put": lambda x, none, at: x.index_put((at,), none),
    "put": lambda x, none, at: x.put(at, none),
    "nll_loss": lambda x, none, at: F.nll_loss(none[:, None].expand(-1, 5), at, reduction="sum"),
    "cross_entropy": lambda x, none, at: F.cross_entropy(none[:, None] * x, at, reduction="none"),
    "binary_cross_entropy": lambda x, none, at: F.binary_cross_entropy(at.to(x.dtype), none, reduction="sum"),
}


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CHECKERS)
def test_nothing_is_checked(name: str, dynamic: bool, tier: str, compiler: Callable[..., Any]) -> None:
    def fn(x: Tensor, far: Tensor) -> Tensor:
        none = x[x > 9] if dynamic else x[:0]
        return CHECKERS[name](x, none, far.expand(none.shape[0]))

    x, far = torch.rand(5), torch.tensor(99)
    run = compiler(fn, fullgraph=True, options={"tier": tier})
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert_same_bits(run(x, far), fn(x, far))
        if dynamic:
            with pytest.raises((IndexError, RuntimeError)):
                run(x + 10, far)
        assert_same_bits(run(x, far), fn(x, far))


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_rows_of_no_columns(dynamic: bool, tier: str, compiler: Callable[..., Any]) -> None:
    """The loop over rows has iterations, and the one over their elements none."""

    def fn(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        none = x[x > 9] if dynamic else x[:0]
        rows = (none * x[:, None])[i + 90]
        return rows, rows.exp().sum(1)

    x, i = torch.rand(5), torch.tensor([3, 1, 2])
    run = compiler(fn, fullgraph=True, options={"tier": tier})
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for mine, theirs in zip(run(x, i), fn(x, i), strict=True):
            assert_same_bits(mine, theirs)
