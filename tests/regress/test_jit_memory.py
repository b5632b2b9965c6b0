"""What dlc.jit made of the memory of arguments and of what is read from outside."""

import numpy as np
import pytest
import torch

import dlc


def test_all_of_an_argument_is_a_tensor_of_its_own() -> None:
    x = torch.ones(3)
    y = dlc.jit(lambda x: x.view(-1))(x)
    assert y.unsqueeze_(0).data_ptr() == x.data_ptr() and x.shape == (3,)
    a = np.ones(3, np.float32)
    b = dlc.jit(lambda x: x.reshape(-1))(a)
    assert b is not a and np.shares_memory(a, b)


@pytest.mark.parametrize("size", [1, 3, 9])
def test_a_constant_is_read_at_each_call(size: int) -> None:
    scale = torch.full((size,), 2.0)
    fast = dlc.jit(lambda x: x * scale, constants=True)
    assert fast(torch.ones(size)).tolist() == [2.0] * size
    scale.fill_(5.0)
    assert fast(torch.ones(size)).tolist() == [5.0] * size


def test_numpy_has_no_bfloat16() -> None:
    with pytest.raises(TypeError, match="bf16"):
        dlc.jit(lambda x: torch.zeros_like(x, dtype=torch.bfloat16))(np.ones(4, np.float32))


def test_an_array_that_is_not_aligned() -> None:
    x = np.frombuffer(b"\0" + np.arange(5, dtype=np.float32).tobytes(), np.float32, offset=1)
    assert not x.flags.aligned
    assert dlc.jit(lambda x: x + 1)(x).tolist() == [1, 2, 3, 4, 5]


def test_autocast_that_is_off_inside() -> None:
    @dlc.jit
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            return a @ b

    a, b = torch.randn(16, 16), torch.randn(16, 16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(product(a, b), a.double().matmul(b.double()).float())
