"""Attention reads rows: what eager has copied to rows must not be columns here."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def attend(x: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(x.permute(0, 1, 3, 2).contiguous().transpose(1, 2), k, v)


@pytest.mark.parametrize("capture", ["aot", "direct"])
def test_forward(capture: str) -> None:
    torch._dynamo.reset()
    operands = torch.randn(2, 40, 16, 4), torch.randn(2, 4, 40, 16), torch.randn(2, 4, 40, 16)
    run = torch.compile(attend, backend="dlc", options={"capture": capture, "strict": True})
    with torch.no_grad():
        torch.testing.assert_close(run(*operands), attend(*operands), check_stride=True)


def test_gradients() -> None:
    torch._dynamo.reset()
    shapes = (2, 40, 16, 4), (2, 4, 40, 16), (2, 4, 40, 16)
    operands = [torch.randn(shape, requires_grad=True) for shape in shapes]
    weight = torch.randn(2, 4, 16, 40).transpose(2, 3)
    run = torch.compile(attend, backend="dlc", options={"strict": True})
    mine, theirs = (torch.autograd.grad(f(*operands), operands, weight) for f in (run, attend))
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("capture", ["aot", "direct"])
def test_the_result_lies_as_the_query_does(capture: str) -> None:
    def doubled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q * 2, k, v)

    torch._dynamo.reset()
    operands = torch.randn(2, 7, 3, 8).transpose(1, 2), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    run = torch.compile(doubled, backend="dlc", options={"capture": capture, "strict": True})
    torch.testing.assert_close(run(*operands), doubled(*operands), check_stride=True)
