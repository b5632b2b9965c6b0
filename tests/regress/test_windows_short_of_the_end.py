"""A convolution in steps of 3 over an image whose size is a symbol was eager's: of the padded image it was
not known whether the windows leave out its last elements."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tolerance import assert_program


def test_windows_that_may_leave_out_the_end(compiler: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    weight = torch.randn(5, 6, 3)

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return F.conv1d(x, weight, stride=3, padding=1)

    options = {"products": "own", "tier": "tcc", "strict": True}
    compiled = compiler(run, options=options, dynamic=True)
    for length in (9, 10, 11):
        x = torch.randn(2, 6, length)
        exact = run(x.double(), weight.double())
        assert_program({"y": compiled(x, weight)}, {"y": run(x, weight)}, {"y": exact})
