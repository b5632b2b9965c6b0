"""Messages that a first day met and that were wrong or named nothing to do, and values that were refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dlc

X, T = np.arange(4.0), torch.arange(4.0)


# -- scalars of NumPy's --------------------------------------------------------------------------------

SCALARS = [
    np.float64(2.5),
    np.float32(2.5),
    np.float16(2.5),
    np.int64(2),
    np.int16(2),
    np.bool_(True),
    np.complex64(1j),
]


@pytest.mark.parametrize("k", SCALARS, ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_a_scalar_beside_an_array(k: Any, dtype: Any) -> None:
    def f(x: Any, k: Any) -> Any:
        return x * k + k

    x = X.astype(dtype)
    have, want = dlc.jit(f)(x, k), f(x, k)
    assert have.dtype == want.dtype and np.array_equal(have, want)


@pytest.mark.parametrize("k", SCALARS[:-1], ids=lambda k: type(k).__name__)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_a_scalar_beside_a_tensor(k: Any, tier: str) -> None:
    def f(x: Any, k: Any) -> Any:
        return x * k + k

    have, want = dlc.jit(f, tier=tier)(T, k), f(T, k)
    assert have.dtype == want.dtype and torch.equal(have, want)


def test_scalars_alone() -> None:
    have = dlc.jit(lambda x, k: x * k)(np.float64(2), np.float64(3))
    assert type(have) is np.float64 and have == 6


def test_floats_that_change_are_not_compiled_for() -> None:
    f = dlc.jit(lambda x, k: x - k)
    f(X, X.mean())
    before = dlc.counters()["graphs"]
    for k in range(5):
        np.testing.assert_array_equal(f(X + k, (X + k).mean()), X - X.mean())
    assert dlc.counters()["graphs"] == before


SCALE, TWO, PAIR = np.float64(3), np.float32(2), (np.float64("nan"), np.int8(1))


def test_a_scalar_of_the_module_in_a_tuple_and_as_a_default() -> None:
    f = dlc.jit(lambda x, k=TWO, pair=PAIR: x * SCALE * k * pair[1])
    np.testing.assert_array_equal(f(X), X * 6)
    assert torch.equal(f(T), T * 6)
    before = dlc.counters()["graphs"]
    f(X, np.float32(2), (np.float64("nan"), np.int8(1)))  # nan is the same constant
    assert dlc.counters()["graphs"] == before


# -- messages ------------------------------------------------------------------------------------------


def second(pair: Any) -> Any:
    return pair[1]


def bad_name(x: Any) -> Any:
    return x.relux()


class Series:
    """As pandas has it: no array of NumPy's, but one can be made of it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return X


MESSAGES: dict[str, tuple[Callable[[], Any], str]] = {
    "a tuple": (lambda: dlc.jit(second)((T, T)), r"a tuple that holds an object of type Tensor.*f\(a, b\)"),
    "arrays": (lambda: dlc.jit(second)((X, X)), r"'pair' is a tuple that holds .* numpy.ndarray"),
    "a list": (
        lambda: dlc.jit(second)([T, T]),
        r"'pair' is of type list.* a parameter of its own, f\(a, b\)",
    ),
    "a dict": (lambda: dlc.jit(second)({1: T}), r"'pair' is of type dict.* a parameter of its own"),
    "an attribute": (lambda: dlc.jit(bad_name)(T), "'Tensor' object has no attribute 'relux'"),
    "an attribute of an array": (
        lambda: dlc.jit(bad_name)(X),
        "'numpy.ndarray' object has no attribute 'relux'",
    ),
    "mean": (
        lambda: dlc.kernel("y = mean[k] x[k]"),
        r"1:5: there is no reduction 'mean': write sum\[k\] .. / size",
    ),
    "norm": (
        lambda: dlc.kernel("y = norm[k] x[k]"),
        r"no reduction 'norm': write sqrt\(sum\[k\] a\[k\] \* a\[k\]\)",
    ),
    "amax": (lambda: dlc.kernel("y = amax[k] x[k]"), r"no reduction 'amax': write max\[k\]"),
    "relu": (lambda: dlc.kernel("y[k] = relu(x[k])"), r"no function 'relu': write max\(a, 0\)"),
    "silu": (lambda: dlc.kernel("y[k] = silu(x[k])"), r"no function 'silu': write a \* sigmoid\(a\)"),
    "a near name": (lambda: dlc.kernel("y[k] = exq(x[k])"), "no function 'exq'; did you mean 'exp'"),
    "no place": (
        lambda: dlc.kernel("y[i] = max[j] x[i,j]")(T.new_ones(3, 0)),
        "argument 'x' has an axis of size 0",
    ),
    "bincount": (
        lambda: dlc.jit(lambda x: np.bincount(x))(np.arange(3)),
        r"bincount.* depends on the greatest value.*minlength=n",
    ),
    "histogram": (lambda: dlc.jit(lambda x: np.histogram(x, "auto"))(X), "bins .*give a number"),
    "meta": (
        lambda: torch.compile(lambda x: x + 1, backend="dlc", options={"strict": True})(T.to("meta")),
        r"on the device meta, so it has no values: make it on the CPU, torch\.empty_like",
    ),
    "meta, ahead of time": (
        lambda: torch.compile(lambda x: x + 1, backend="dlc", fullgraph=True).aot_compile(
            ((T.to("meta"),), {})
        ),
        r"argument 'x': the tensor is on the device meta",
    ),
    "an array of another library": (
        lambda: dlc.jit(lambda x: x + 1)(Series()),
        r"'x' is of type Series; .*; np\.asarray\(x\) makes an array",
    ),
    "a masked array": (lambda: dlc.jit(lambda x: x + 1)(np.ma.array(X)), "'x' is .*Masked"),
    "any object": (lambda: dlc.jit(lambda x: x)(object()), "constants=True.* takes any object as a constant"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message(name: str) -> None:
    run, words = MESSAGES[name]
    with pytest.raises(Exception, match=words):
        run()


def test_an_argument_may_be_called_mean() -> None:
    assert dlc.kernel("y[k] = x[k] - mean[k]")(T, T).tolist() == [0, 0, 0, 0]


# -- pickles -------------------------------------------------------------------------------------------


def twice(x: Any) -> Any:
    return x * 2


@dlc.jit
def decorated(x: Any) -> Any:
    return x * 3


class Holder:
    @staticmethod
    def inner(x: Any) -> Any:
        return x * 4


renamed = dlc.jit(twice, tier="tcc")


@pytest.mark.parametrize(
    "f", [renamed, decorated, dlc.jit(Holder.inner)], ids=["renamed", "decorated", "inner"]
)
def test_a_function_of_dlc_jit_is_pickled(f: Any) -> None:
    again = pickle.loads(pickle.dumps(f))
    assert torch.equal(again(T), f(T)) and type(again) is type(f)
    assert pickle.loads(pickle.dumps(f)) is again  # compiled once


def test_one_without_a_name_says_what_to_pickle() -> None:
    with pytest.raises(TypeError, match="pickle the function itself, its __wrapped__"):
        pickle.dumps(dlc.jit(lambda x: x))
