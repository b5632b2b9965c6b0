"""torch.rsub computes other - input: where the two lie in other orders, the result lies as `other`."""

import pytest
import torch

PLACES = [((5, 10, 5), (50, 1, 10)), ((4, 5, 10), (50, 1, 5)), ((5, 10, 5), (1, 25, 5))]


@pytest.mark.parametrize(("shape", "stride"), PLACES)
@pytest.mark.parametrize("other", ["rows", "transposed", "few", "number"])
def test_layout(shape: tuple[int, ...], stride: tuple[int, ...], other: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(1000).as_strided(shape, stride)
    rows = torch.randn(shape)
    y = {
        "rows": rows,
        "transposed": rows.transpose(1, 2).contiguous().transpose(1, 2),
        "few": torch.randn(shape[1:]),
        "number": torch.randn(()),
    }[other]
    want = torch.rsub(x, y)
    found = torch.compile(torch.rsub, backend="dlc")(x, y)
    assert torch.equal(found, want)
    assert found.stride() == want.stride()
