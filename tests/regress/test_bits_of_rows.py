"""A row's sum has the same bits whatever is known of how many rows there are."""

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
