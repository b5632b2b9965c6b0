"""What dlc.jit made of the memory of arguments and of what is read from outside."""

from collections.abc import Callable
from typing import Any

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


def grown(x: np.ndarray) -> np.ndarray:
    s = np.zeros(1)
    for _ in range(1100):  # more than are captured one by one
        s = s + x
    return s


@pytest.mark.parametrize("sizes", [(1,), (5,), (1, 5)])
def test_an_array_that_grows_at_the_first_step(sizes: tuple[int, ...]) -> None:
    """What was known of the loop before its first step was taken for the rest, which has arrays alike."""
    x = np.arange(np.prod(sizes), dtype=np.float64).reshape(sizes)
    assert np.array_equal(dlc.jit(grown)(x), grown(x))


def written_and_exchanged(q: np.ndarray) -> np.ndarray:
    for _ in range(20):
        for _ in range(20):
            q[0] += 5
            q = q + 1
    return q


def written_in_a_loop_of_three(q: np.ndarray) -> np.ndarray:
    for _ in range(20):
        for _ in range(20):
            for _ in range(20):
                q[0] += 1
            q = q + 1
    return q


def written_by_another_name(a: np.ndarray) -> np.ndarray:
    for _ in range(20):
        for _ in range(20):
            b = a
            a = a + 1
            b[1:] = 5
    return a


def own(x: np.ndarray) -> np.ndarray:
    q, s = x.copy(), x * 0
    for k in range(20):
        n = 0
        while q[0] < k:
            q[0] += 1
            q = q + 0.5
            n += 1
        s = s + q * n
    return s


def own_on_one_way(x: np.ndarray) -> np.ndarray:
    q = x.copy()
    for k in range(20):
        if q[1] > k:
            for _ in range(20):
                q[0] += 1
                q = q + 0.5
        else:
            q = q + 2
    return q


@pytest.mark.parametrize(
    "function",
    [written_and_exchanged, written_in_a_loop_of_three, written_by_another_name, own, own_on_one_way],
    ids=lambda function: function.__name__,
)
@pytest.mark.parametrize("step", [1, 2, -1])
def test_a_loop_in_a_loop_writes_to_what_it_exchanges(function: Callable[..., Any], step: int) -> None:
    """The inner loop began with a copy, so what it wrote to the argument at its first step was lost."""
    x, y = np.arange(8.0)[::step][:4], np.arange(8.0)[::step][:4]
    assert np.array_equal(dlc.jit(function)(x), function(y)) and np.array_equal(x, y)


def two_names(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = x.copy()
    b = a
    for k in range(20):
        a[0] = k + 7
        a = a + 1
    return a, b


def two_names_in_a_loop(x: np.ndarray) -> np.ndarray:
    p, s = x.copy(), x * 0
    for _ in range(20):
        q = p
        for _ in range(20):
            q[0] += 7
            q = q + 1
        s = s + q
    return s


@pytest.mark.parametrize("function", [two_names, two_names_in_a_loop], ids=lambda f: f.__name__)
def test_two_names_of_an_array_that_a_loop_writes_to(function: Callable[..., Any]) -> None:
    """The other name had the array as it was before the loop."""
    with pytest.raises(
        dlc.CaptureError, match=r"a loop has written to by a name .*: write x\.copy\(\) before"
    ):
        dlc.jit(function)(np.zeros(4))
