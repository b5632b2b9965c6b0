"""A jagged nested tensor: the size of its ragged axis is a symbol when the graph runs too."""

import torch
from torch import Tensor


def jagged() -> Tensor:
    return torch.nested.nested_tensor([torch.randn(2, 8), torch.randn(5, 8)], layout=torch.jagged)


def test_pointwise() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.sin() * 2 + 1, backend="dlc", options={"strict": True})
    for x in (jagged(), jagged()):
        torch.testing.assert_close(compiled(x).values(), x.values().sin() * 2 + 1)


def test_gradients() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: (x.sin() * 2).values().sum(), backend="dlc")
    x = jagged()
    a, b = x.detach().clone().requires_grad_(), x.detach().clone().requires_grad_()
    compiled(a).backward()
    (b.sin() * 2).values().sum().backward()
    torch.testing.assert_close(a.grad.values(), b.grad.values())
