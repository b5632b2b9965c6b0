"""AOTAutograd wraps a backward callable with functools.wraps, and warned that the wrapper was not boxed."""

import warnings

import torch


def test_backward_is_boxed() -> None:
    torch._dynamo.reset()
    x = torch.randn(4, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.compile(lambda x: x.sin().exp(), backend="dlc")(x).sum().backward()
    assert x.grad is not None
