"""A diagonal, or windows, of an input that does not lie row-major is a view of it, as in eager.

The graph ran eagerly: the view was taken for one over elements in row-major order, which had no strides.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.tolerance import assert_same_kind

VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "diagonal": lambda x: x.diagonal(),
    "part of a diagonal": lambda x: x.diagonal(1)[1:],
    "diagonal of outer axes": lambda x: x[None, :, :].expand(3, -1, -1).diagonal(0, 1, 2),
    "windows": lambda x: x.unfold(0, 3, 2),
    "windows of the other axis": lambda x: x.unfold(1, 3, 1),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_view_of_transposed(name: str, dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(VIEWS[name], backend="dlc", dynamic=dynamic, options={"strict": True})
    for rows, columns in ((9, 7), (5, 8)):
        x = torch.randn(columns, rows).t()
        mine, eager = compiled(x), VIEWS[name](x)
        assert_same_kind(mine, eager)
        assert torch.equal(mine, eager)
        assert mine.data_ptr() == eager.data_ptr()
        x.add_(1)
        assert torch.equal(mine, eager)
