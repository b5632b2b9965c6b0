"""Nothing is looked up, so that no index is wrong: loops around one of no iterations check none."""

import pytest
import torch


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("capture", ["aot", "direct"])
def test_rows_of_no_elements(tier: str, capture: str) -> None:
    torch._dynamo.reset()
    x, i, none = torch.randn(5, 3), torch.tensor([9, 0, 7]), torch.zeros(0, dtype=torch.int64)

    def rows(x: torch.Tensor, i: torch.Tensor, none: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x[:, :0][i], x[i[:, None], none]

    run = torch.compile(rows, backend="dlc", options={"tier": tier, "strict": True, "capture": capture})
    with torch.no_grad():
        for mine, theirs in zip(run(x, i, none), rows(x, i, none), strict=True):
            assert mine.shape == theirs.shape
