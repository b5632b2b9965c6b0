"""view_copy of memory that no view of the new shape has: torch's decomposition raised, and the graph ran
eagerly."""

import pytest
import torch

import dlc


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_of_a_transposed_tensor(dtype: torch.dtype) -> None:
    def copied(x: torch.Tensor) -> torch.Tensor:
        return torch.view_copy(x, (25, 5))

    x = (torch.arange(125).view(5, 5, 5) % 3).to(dtype).mT
    before = dlc.counters()["eager_graphs"]
    y = torch.compile(copied, backend="dlc")(x)
    assert dlc.counters()["eager_graphs"] == before
    assert torch.equal(y, copied(x))
    assert y.is_contiguous()


def test_is_no_view() -> None:
    x = torch.zeros(4, 6)
    y = torch.compile(lambda x: torch.view_copy(x, (24,)), backend="dlc")(x)
    assert y.data_ptr() != x.data_ptr()
