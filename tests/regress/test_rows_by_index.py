"""Rows that run together and are looked up by an index for each; rows that are short where a call says so."""

import pytest
import torch


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_rows(tier: str) -> None:
    torch._dynamo.reset()
    x = torch.randn(100, 8)
    i, j = torch.randint(0, 100, (100,)), torch.randint(0, 8, (8,))
    run = torch.compile(
        lambda x, i, j: x[i[:, None], j], backend="dlc", options={"tier": tier, "strict": True}
    )
    assert torch.equal(run(x, i, j), x[i[:, None], j])


@pytest.mark.parametrize("n", [64, 15, 5])
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_short_rows_read_late(n: int, tier: str) -> None:
    """The kernel for short rows alone cannot store over its parameter: its compile did not end."""
    torch._dynamo.reset()
    x = torch.randn(5, 5, 64)[:, :, :n].contiguous()
    torch._dynamo.mark_dynamic(x, 2)
    want = x - x.sum(-1).t()[:, :, None]

    def step(x: torch.Tensor) -> None:
        x.sub_(x.sum(-1).t()[:, :, None])

    torch.compile(step, backend="dlc", options={"tier": tier, "strict": True})(x)
    torch.testing.assert_close(x, want)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_rows_of_planes(tier: str, dynamic: bool) -> None:
    """What is looked up by an index that is bound in the loop cannot be taken before it."""
    torch._dynamo.reset()
    x, i = torch.randn(9, 30, 64), torch.randint(0, 30, (9, 30, 64))
    run = torch.compile(
        lambda x, i: x.gather(1, i), backend="dlc", dynamic=dynamic, options={"tier": tier, "strict": True}
    )
    assert torch.equal(run(x, i), x.gather(1, i))
