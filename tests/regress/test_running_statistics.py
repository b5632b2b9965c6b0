"""A batch norm by its running statistics, as the operator that may move them: they stay what they were."""

import torch
from torch import Tensor


def test_they_stay_and_gradients_read_them() -> None:
    torch._dynamo.reset()

    def function(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return torch._native_batch_norm_legit(x, weight, bias, mean, var, False, 0.1, 1e-5)[0]

    compiled = torch.compile(function, backend="dlc", options={"strict": True})
    mean, var = torch.tensor([1.0, -2.0]), torch.tensor([4.0, 0.25])
    x = torch.arange(12.0).reshape(3, 2, 2).requires_grad_()
    weight, bias = torch.tensor([1.5, 0.5]).requires_grad_(), torch.zeros(2).requires_grad_()
    compiled(x, weight, bias, mean, var).square().sum().backward()
    assert mean.tolist() == [1.0, -2.0] and var.tolist() == [4.0, 0.25]
    got = [t.grad.clone() for t in (x, weight, bias)]
    x.grad = weight.grad = bias.grad = None
    function(x, weight, bias, mean, var).square().sum().backward()
    for mine, t in zip(got, (x, weight, bias), strict=True):
        torch.testing.assert_close(mine, t.grad)


def test_of_one_result() -> None:
    """Captured directly it has no other."""
    torch._dynamo.reset()

    def function(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return torch.nn.functional.batch_norm(x, mean, var) + 1

    mean, var = torch.tensor([1.0, -2.0]), torch.tensor([4.0, 0.25])
    x = torch.arange(12.0).reshape(3, 2, 2)
    compiled = torch.compile(function, backend="dlc", options={"strict": True, "capture": "direct"})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, mean, var), function(x, mean, var))
