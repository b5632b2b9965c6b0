"""Arrays of uint16, uint32 and uint64 as arguments and results: NumPy's numbers, bit for bit, and its dtypes.

Sums, products and shifts wrap around; the numbers are those at the ends of the dtypes, and random ones.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dlc import CaptureError
from tests.backend.jitted import jit

UNSIGNED = ["uint16", "uint32", "uint64"]
OTHERS = [*UNSIGNED, "uint8", "int16", "int64", "float32", "float64", "bool"]


def numbers(dtype: Any, count: int = 40, seed: int = 0) -> Any:
    """Those at the ends of the dtype, and random ones of all lengths."""
    rng, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(count) > 0.5
    if dtype.kind == "f":
        return (rng.random(count) * 60000).astype(dtype)
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.max, limits.max // 2, limits.max // 2 + 1, 1, 0, 2, limits.max - 1]
    rest = rng.integers(limits.min, limits.max, count - len(ends), dtype, endpoint=True)
    rest >>= rng.integers(0, 8 * dtype.itemsize, len(rest)).astype(dtype)
    return rng.permutation(np.concatenate([np.array(ends, dtype), rest]))


def assert_same(ours: Any, theirs: Any) -> None:
    ours, theirs = ([x] if not isinstance(x, (tuple, list)) else x for x in (ours, theirs))
    pairs = zip(ours, theirs, strict=True)
    for k, (a, b) in enumerate((a, b) for a, b in pairs if a is not None or b is not None):
        assert type(a) is type(b) and a.dtype == b.dtype, (k, type(a), type(b), a.dtype, b.dtype)
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=4 * np.finfo(a.dtype).eps, err_msg=str(k))
        else:
            np.testing.assert_array_equal(a, b, err_msg=str(k))


def check(function: Callable[..., Any], *arguments: Any) -> None:
    """What it returns, and what it leaves in its arguments; twice, as the second call runs no Python."""
    fast = jit(function)
    for _ in range(2):
        ours, theirs = ([a.copy() for a in arguments] for _ in range(2))
        with np.errstate(all="ignore"):
            expected = function(*theirs)
        assert_same(fast(*ours), expected)
        assert_same(ours, theirs)


def arithmetic(a: Any, b: Any) -> Any:
    return (
        a + b,
        a - b,
        b - a,
        a * b,
        a // b,
        a % b,
        b // a,
        a / b,
        -a,
        a**2,
        np.maximum(a, b),
        np.minimum(a, b),
    )


def compared(a: Any, b: Any) -> Any:
    return a < b, a <= b, a == b, a != b, a > b, b >= a, np.logical_and(a, b), np.logical_xor(a, b)


def bitwise(a: Any, b: Any) -> Any:
    return a & b, a | b, a ^ b, ~a, a << (b & b.dtype.type(7)), a >> (b & b.dtype.type(7))


def known(a: Any) -> Any:
    return (
        a + 3,
        5 - a,
        a * 7,
        a // 3,
        a % 10,
        a >> 3,
        a << 5,
        a & 255,
        a > 200,
        1.5 * a,
        a == 1,
        abs(a),
        a - 1,
    )


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("other", OTHERS)
def test_promotion_and_wrap_around(dtype: str, other: str) -> None:
    a, b = numbers(dtype), numbers(other, seed=1)
    if other != "bool":
        check(arithmetic, a, b)
    check(compared, a, b)
    if np.dtype(other).kind in "iu" and np.result_type(dtype, other).kind != "f":
        check(bitwise, a, np.abs(b))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_numbers_of_python_are_weak(dtype: str) -> None:
    check(known, numbers(dtype))
    with pytest.raises(OverflowError):
        jit(lambda a: a + (1 << 70))(numbers(dtype))
    with pytest.raises(OverflowError):
        jit(lambda a: a + -1)(numbers(dtype))


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize(
    "other", ["int8", "int32", "int64", "uint8", *UNSIGNED, "float32", "float64", "bool"]
)
def test_conversions(dtype: str, other: str) -> None:
    check(lambda x: x.astype(other), numbers(dtype))
    if np.dtype(other).kind != "f":
        check(lambda x: x.astype(dtype), numbers(other))
    else:
        check(lambda x: x.astype(dtype), np.float64([0, 1.5, 65535.5, 3.9, 77]).astype(other))


def test_floats_above_the_signed_numbers() -> None:
    check(lambda x: x.astype(np.uint32), np.float64([2.0**31, 2.0**32 - 1, 3e9 + 0.5]))
    check(lambda x: x.astype(np.uint64), np.float64([2.0**63, 2.0**64 - 4096, 1e19, 5.5]))


def reduced(x: Any) -> Any:
    y = x.reshape(5, 8)
    return (
        x.sum(), y.sum(axis=0), x.prod(), y.prod(axis=1), x.max(), y.min(axis=1), x.argmax(),
        y.argmin(axis=0), x.mean(), y.mean(axis=0), x.std(), np.cumsum(x), np.cumprod(x), np.ptp(x),
        x.any(), y.all(axis=1),
        np.count_nonzero(y, axis=0), x.sum(dtype=x.dtype), x.sum(dtype=np.float64), np.sort(x), np.argsort(x),
        np.median(x),
    )  # fmt: skip


def moved(x: Any, m: Any, k: Any) -> Any:
    y = x.reshape(5, 8)
    return (
        np.concatenate([x[3:], x[::-1]]), np.where(m, x, 7), np.where(m, x, x[0]), x[k], np.roll(x, 3),
        y.T.copy(), np.clip(x, 5, 200), np.stack([x, x + 1]), np.repeat(x, 2), np.diff(x), np.zeros_like(x),
        np.full_like(x, 9), np.tril(y), x[1:] - x[:-1], x[m].sum(), np.searchsorted(np.sort(x), x),
        np.outer(x, x), np.isin(x, x[:3]), np.full(3, x[1]), np.arange(5, dtype=x.dtype) + x[:5],
        np.ones(len(x), x.dtype), y @ y.T, np.dot(x, x),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [*UNSIGNED, "uint8"])
def test_functions(dtype: str) -> None:
    x = numbers(dtype)
    check(reduced, x)
    check(moved, x, np.arange(40) % 3 == 0, (np.arange(40) * 7 % 40).astype(np.uint16))


def writes(x: Any, m: Any) -> None:
    x[1:5] = 3
    x[5:9] += x[6:10]
    x[m] *= 5
    x -= 1
    np.add(x, x, out=x)
    x[::2] = x[1::2]
    np.add.at(x, [1, 1, 2], 9)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_writes(dtype: str) -> None:
    check(writes, numbers(dtype), np.arange(40) % 3 == 0)


def fnv(data: Any, prime: Any) -> Any:
    h = np.uint32(2166136261)
    for i in range(len(data)):
        h = (h ^ data[i]) * prime[0]
    return h


def xorshift(state: Any, out: Any) -> None:
    for i in range(len(out)):
        x = state[0]
        x = x ^ (x << 13)
        x = x ^ (x >> 7)
        x = x ^ (x << 17)
        state[0] = x
        if x > 9223372036854775807:
            out[i] = x % 100
        else:
            out[i] = x


def adler(data: Any) -> Any:
    a, b = np.uint32(1), np.uint32(0)
    for byte in data:
        a = (a + byte) % 65521
        b = (b + a) % 65521
    return (b << 16) | a


def test_loops() -> None:
    with np.errstate(over="ignore"):
        check(fnv, numbers("uint8", 60).astype(np.uint32), np.array([16777619], np.uint32))
        check(adler, numbers("uint32", 60) & np.uint32(255))
        check(xorshift, np.array([88172645463325252], np.uint64), np.zeros(50, np.uint64))


def test_layouts_scalars_and_memory() -> None:
    x = numbers("uint32", 60)
    fast = jit(lambda a, b: (a + b, a[1:4], a[0]))
    for a, b in [(x[::2], x[1::2]), (x[::-1], x), (x.astype(">u4"), x), (x.reshape(6, 10).T, np.uint32(5))]:
        with np.errstate(over="ignore"):
            assert_same(list(fast(a, b)), [a + b, a[1:4].astype(np.uint32), a[0].astype(np.uint32)])
    view = jit(lambda a: a[2:5])(x)
    assert np.shares_memory(view, x) and view.dtype == np.uint32
    fixed = x.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        jit(writes)(fixed, x > 3)
    same = jit(lambda a: a + 1)  # a variant for each dtype of one size
    for dtype in ("int32", "uint32", "int32", "uint64", "int64", "uint16", "int16"):
        assert_same(same(np.ones(3, dtype)), np.full(3, 2, dtype))


def test_shared_memory_is_refused_as_of_other_dtypes() -> None:
    def function(a: Any, b: Any) -> None:
        a += b

    x = numbers("uint32")
    with pytest.raises(CaptureError, match=r"writes to its argument 'a'.*shares memory with"):
        jit(function)(x[1:], x[:-1])


def test_generators_draw_them() -> None:
    fast = jit(lambda rng, x: rng.integers(0, 2**32, 20, dtype=np.uint32) + x)
    ours, theirs = np.random.default_rng(3), np.random.default_rng(3)
    x = numbers("uint32", 20)
    assert_same(fast(ours, x), theirs.integers(0, 2**32, 20, dtype=np.uint32) + x)
    assert ours.random() == theirs.random()


def sigmoid(x: Any) -> Any:
    return torch.sigmoid(x)


def test_what_cannot_be_had_is_named_with_its_line() -> None:
    line = sigmoid.__code__.co_firstlineno + 1
    with pytest.raises(CaptureError, match=rf"torch.sigmoid of uint32 .*test_jit_unsigned.py:{line}.*astype"):
        jit(sigmoid)(numbers("uint32"))
