"""Sides of a frame that one loop stores: the first is stored also where the second has no elements."""

import pytest
import torch


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_pool_of_even_rows(tier: str) -> None:
    torch._dynamo.reset()

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.nn.functional.max_pool2d(x, (3, 2), (2, 1), (1, 1), (1, 2), return_indices=True)

    run = torch.compile(both, backend="dlc", dynamic=True, options={"tier": tier, "strict": True})
    for rows, columns in ((5, 17), (6, 18), (7, 6), (6, 6), (2, 2), (4, 20)):
        for planes in (2, 3):
            junk = [torch.full((n,), 9.0) for n in range(20, 1200, 20)]
            del junk
            x = torch.randn(planes, rows, columns)
            for got, want in zip(run(x), both(x), strict=True):
                assert torch.equal(got, want)


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_parts_without_columns(tier: str) -> None:
    torch._dynamo.reset()

    def parts(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x * 2, y + 1], 1)

    run = torch.compile(parts, backend="dlc", options={"tier": tier, "strict": True})
    x, y = torch.randn(6, 40), torch.randn(6, 30)
    for t in (x, y):
        torch._dynamo.maybe_mark_dynamic(t, 0)
        torch._dynamo.maybe_mark_dynamic(t, 1)
    assert torch.equal(run(x, y), parts(x, y))
    x, y = torch.randn(5, 20), torch.randn(5, 0)
    assert torch.equal(run(x, y), parts(x, y))
