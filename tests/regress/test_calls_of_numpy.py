"""Calls of NumPy: arguments by position, their samples, what they write to, and the texts of calls."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import dlc
from dlc import CaptureError
from dlc.arrays.host import PARAMETERS, signature_of
from tests.backend.jitted import jit

X = np.arange(12.0).reshape(3, 4) ** 1.5


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def made(text: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {"np": np}
    exec("def f(x, rng=None, n=None):\n    " + "\n    ".join(text.split("; ")), scope)
    return scope["f"]


def check(text: str, *args: Any) -> None:
    function = made(text)
    want, have = function(*args), jit(function)(*args)
    for w, h in zip(*(v if isinstance(v, tuple) else (v,) for v in (want, have)), strict=True):
        assert type(h) is type(w)
        assert np.asarray(h).dtype == np.asarray(w).dtype
        np.testing.assert_array_equal(h, w)


# -- out= by position ----------------------------------------------------------------------------------

OUTS = (
    "o = np.empty(4); r = np.median(x, 0, o); return o, r",
    "o = np.empty(4); np.percentile(x, 50, 0, o); return o, x",
    "o = np.empty(x.shape, complex); np.fft.fft(x, None, -1, None, o); return o * 2",
    "o = np.empty(4); np.hypot.reduce(x, 0, None, o); return o + 1",
    "o = np.empty(x.shape); np.maximum.accumulate(x, 1, None, o); return o + 1",
    "o = np.empty((2, 4)); np.hypot.reduceat(x, [0, 2], 0, None, o); return o + 1",
    "o = np.empty(4); np.add.reduce(x, 0, None, o); return o + 1",
    "o = np.empty(4); np.sum(x, 0, None, o, False, 3.0); return o + 1",
    "o = np.empty(4); np.max(x, 0, o, False, 3.0); return o + 1",
    "o = np.empty(4); np.choose(np.array([0, 1, 0, 2]), [x[0], x[1], x[2]], o); return o + 1",
    "o = np.empty((3, 3)); np.dot(x, x.T, o); return o.shape",
    "o = np.empty(x.shape); np.spacing(x, o); return o + 1",
    "o = np.empty(x.shape); m, e = np.frexp(x, o); return o + 1, m, e",
    "o = np.zeros((2, 3, 4)); np.clip(x, 1, 2, out=o); return o",
    "o = np.zeros((2, 3, 4)); np.add(x, 1, out=o); return o",
)


@pytest.mark.parametrize("text", OUTS)
def test_out_by_position(text: str) -> None:
    check(text, X)


DRAWS = (
    "o = np.empty(3); r = rng.random(3, np.float64, o); return o + 1, r",
    "o = np.empty(3); rng.standard_normal(3, np.float64, o); return o + 1",
    "o = np.empty(3); rng.standard_exponential(3, np.float64, 'inv', o); return o + 1",
    "o = np.empty(3); rng.standard_gamma(2.0, 3, np.float64, o); return o + 1",
    "o = np.empty(3, np.float32); rng.random(None, np.float32, o); return o + 1",
    "return rng.integers(0, 9, 3, np.int8, True)",
    "return rng.integers(5, dtype=np.dtype(int)) + 1",
    "return rng.integers(5, dtype=np.int8) * 2",
)


@pytest.mark.parametrize("text", DRAWS)
def test_draws_by_position(text: str) -> None:
    function = made(text)
    want, have = (f(X, np.random.default_rng(3)) for f in (function, jit(function)))
    np.testing.assert_array_equal(have, want)
    assert np.asarray(have).dtype == np.asarray(want).dtype


@pytest.mark.parametrize("dtype", ["int", "bool"])
def test_a_draw_of_pythons(dtype: str) -> None:
    with pytest.raises(CaptureError, match=r"rng.integers\(..\) gives an? (int|bool) of Python's"):
        jit(made(f"return rng.integers(2, dtype={dtype}) * x"))(X, np.random.default_rng(0))


def test_operands_are_read_only() -> None:
    """A call whose text has an operand for out=, as no capture makes one."""
    text = '["median", [["array", 0], null, ["array", 1]], {}, [["<f8", 0]]]'
    y = torch.ones(())
    with pytest.raises(ValueError, match="read-only"):
        torch.ops.dlc.numpy(text, [torch.arange(3.0, dtype=torch.float64), y.double()], [])


@pytest.mark.parametrize("text", ["np.median(y, 0, None, True)", "np.median(y, 0, overwrite_input=True)"])
def test_an_operand_is_not_overwritten(text: str) -> None:
    x = np.array([[3.0], [1.0], [2.0]])
    for function in (f"y = x.copy(); r = {text}; return r, y", f"r = {text.replace('y', 'x')}; return r, x"):
        median, left = jit(made(function))(x)
        np.testing.assert_array_equal(median, [2.0])
        np.testing.assert_array_equal(left, [[3.0], [1.0], [2.0]])
    np.testing.assert_array_equal(x, [[3.0], [1.0], [2.0]])


WRONG = (
    "o = np.zeros(4, 'f4'); np.argmax(x, 0, out=o); return o",
    "o = np.zeros(4, 'f4'); np.nanargmax(x, 0, out=o); return o",
    "o = np.zeros(x.shape, int); np.spacing(x, out=o); return o",
    "o = np.zeros(x.shape, int); np.round(x, out=o); return o",
    "o = np.zeros(x.shape, int); np.clip(x, 1, 2, out=o); return o",
    "o = np.zeros(x.shape); np.fft.fft(x, out=o); return o",
    "o = np.zeros(5); np.sum(x, 0, out=o); return o",
    "o = np.zeros((3, 4)); np.sum(x, 0, out=o); return o",
    "o = np.zeros((2, 4)); np.median(x, 0, out=o); return o",
    "o = np.zeros((2, 4)); np.cumsum(x, 0, out=o); return o",
    "o = np.zeros((3, 3), 'f4'); np.dot(x, x.T, out=o); return o",
    "o = np.zeros((3, 3), 'f4'); np.einsum('ij,kj->ik', x, x, out=o); return o",
    "o = np.zeros((3, 3), int); np.matmul(x, x.T, out=o); return o",
)


@pytest.mark.parametrize("text", WRONG)
def test_out_that_numpy_refuses(text: str) -> None:
    function = made(text)
    with pytest.raises((TypeError, ValueError)):
        function(X)
    with pytest.raises((TypeError, ValueError, CaptureError), match=r"[Cc]ast|out= is of shape"):
        jit(function)(X)


@pytest.mark.parametrize("text", ["np.sum(x, 0, out=o)", "np.median(x, 0, out=o)", "np.fft.fft(x[0], out=o)"])
def test_out_of_fewer_digits(text: str) -> None:
    check(f"o = np.zeros(4, '{'c8' if 'fft' in text else 'f4'}'); {text}; return o", X)


@pytest.mark.parametrize("dtype", ["i8", "u1", "f4", "c16", "?"])
def test_sums_are_computed_in_the_dtype_of_out(dtype: str) -> None:
    texts = ["np.sum(x, 0, out=o)", "np.prod(x, 0, out=o)"]
    for text in [*texts, "np.sum(x, 0, out=o, initial=2.5)"] if dtype in ("f4", "c16") else texts:
        check(f"o = np.zeros(4, '{dtype}'); {text}; return o", X.round() / 2 + 1)
    check(f"o = np.zeros((3, 4), '{dtype}'); np.cumsum(x, 1, out=o); return o", X.round() / 2)


def test_means_are_computed_in_the_wider_dtype_of_out() -> None:
    x = np.full((3, 4), 1 / 3, "f4") + np.arange(4, dtype="f4") / 7
    function = made("o = np.zeros(3); np.mean(x, 1, out=o); return o")
    np.testing.assert_allclose(jit(function)(x), function(x), rtol=1e-14)


@pytest.mark.parametrize("text", ["np.median(x, 0, out=o)", "np.max(x, 0, out=o)", "np.mean(x, 0, out=o)"])
def test_an_out_of_another_kind(text: str) -> None:
    with pytest.raises(CaptureError, match="its result of float64 is cast to out= of int64"):
        jit(made(f"o = np.zeros(4, int); {text}; return o"))(X)


def test_the_output_of_a_draw() -> None:
    for text, error in (
        ("rng.random(out=np.empty(3, np.float32))", TypeError),
        ("rng.random(2, out=np.empty(3))", ValueError),
        ("rng.normal(0, 1, 3, out=np.empty(3))", TypeError),
        ("rng.random(3, np.float64, np.empty(3), 1)", TypeError),
        ("rng.random(3, size=3)", TypeError),
    ):
        for function in (made(f"return {text}"), jit(made(f"return {text} + x[0, 0]"))):
            with pytest.raises(error):
                function(X, np.random.default_rng(0))


# -- the operand itself --------------------------------------------------------------------------------


def test_a_check_for_finite_numbers_returns_its_operand() -> None:
    check("y = x + 1; z = np.asarray_chkfinite(y); z[0] = 7.0; y[1] = 8.0; return y, z", X)
    check("y = x + 1; z = np.asarray_chkfinite(y[1:]); z[0] = 7.0; return y, z", X)
    check("return np.asarray_chkfinite(x, int), np.asarray_chkfinite(x[0, 0])", X)
    with pytest.raises(CaptureError, match=r"writes to an argument that np\.asarray_chkfinite has checked"):
        jit(made("z = np.asarray_chkfinite(x); z[0] = 1.0; return z"))(X)
    ours, theirs = X.copy(), X.copy()
    writes = made("x[1] = 2.0; z = np.asarray_chkfinite(x); z[0] = 1.0; return z + x")
    np.testing.assert_array_equal(jit(writes)(ours), writes(theirs))
    np.testing.assert_array_equal(ours, theirs)
    for text in ("np.asarray_chkfinite(x); return x * 2", "y = x + 1; np.asarray_chkfinite(y); return y"):
        fast = jit(made(text))
        fast(X)
        with pytest.raises(ValueError, match="must not contain infs or NaNs"):
            fast(X / 0)


# -- what Python's functions say -----------------------------------------------------------------------


def test_scalars_and_what_can_be_iterated() -> None:
    check(
        "return (np.array([np.isscalar([x]), np.isscalar(x), np.isscalar(len(x)), np.isscalar(x[0, 0]),"
        " np.iterable(len(x)), np.iterable(x), np.iterable([x]), np.iterable(x[0, 0])]), x)",
        X,
    )


def test_a_number_of_pythons_is_weak_where_it_is_copied() -> None:
    for dtype, value in (("u1", "3"), ("i1", "-3"), ("f4", "3"), ("f4", "3.5"), ("c8", "2"), ("f2", "1e9")):
        check(f"y = np.zeros(x.shape, '{dtype}'); np.copyto(y, {value}); return y", X)
    check("y = np.zeros(x.shape, 'u1'); np.copyto(y, len(x)); return y", X)
    for dtype, value in (("u1", "3.0"), ("?", "3"), ("f4", "1j"), ("u1", "300"), ("u1", "np.int64(3)")):
        function = made(f"y = np.zeros(x.shape, '{dtype}'); np.copyto(y, {value}); return y")
        for f in (function, jit(function)):
            with pytest.raises((TypeError, OverflowError)):
                f(X)


def test_results_that_are_named_tuples_are_operands() -> None:
    check("s = np.linalg.slogdet(x[:, :3] + 9 * np.eye(3)); return np.lexsort(s)", X)
    check("q = np.linalg.qr(x[:, :3]); return np.histogram(np.stack(q), 4)", X)
    check("return np.stack(np.linalg.qr(x[:, :3])), np.array(np.linalg.qr(x[:, :3]))", X)


def test_a_truth_value_of_sizes() -> None:
    function = made("n = len(x) > 3; return np.isin(x, 1.0, invert=n), np.median(x, 0, None, False, n)")
    fast = jit(function)
    for n in (2, 3, 5, 6):
        x = np.arange(float(n))
        for have, want in zip(fast(x), function(x), strict=True):
            np.testing.assert_array_equal(have, want)
            assert np.shape(have) == np.shape(want)


# -- samples -------------------------------------------------------------------------------------------

SAMPLED = (
    "q = np.array([[0.2], [0.5]]) + 0 * x[0, 0]; return np.quantile(x, q), np.nanquantile(x, q[0], axis=0)",
    "q = np.arange(9.0) * 10 + 0 * x[0, 0]; return np.percentile(x, q, axis=1)",
    "return np.average(x[:, :1], axis=1, weights=x[:, :1] + 1), np.average(x, weights=x)",
    "return np.average(x, axis=0, weights=x + 1)",
    "return np.choose((x * 0).astype(int), [x])",
    "return np.hypot.reduceat(x[:, :1], (x[:2, 0] * 0).astype(int), axis=1)",
    "i = (x[:1] * 0).astype(int); return np.unravel_index(i, (1, 1))",
    "i = (x[:1] * 0).astype(int); return np.ravel_multi_index((i, i), (1, 1))",
    "return np.cov(x, fweights=(x[0] * 0 + 2).astype(int))",
    "return np.histogram(x, 3, range=(x[0, 0], x[0, 0] + 5))",
    "y = x[:1].copy(); i = (x[:, 0] * 0).astype(int); y[i] = x; return y",
    "y = x[:1].copy(); i = (x[:, 0] * 0).astype(int); np.add.at(y, i, x); return y",
    "y = x[:1, :1].copy(); i = (x[:, 0] * 0).astype(int); np.put(y, i, x[:, 0]); return y",
    "y = x[:1].copy(); i = (x[:1] * 0).astype(int); np.put_along_axis(y, i, x[:1] + 1, axis=0); return y",
    "return np.partition(x[:, :1], (x[0, :1] * 0).astype(int), axis=1)",
    "return np.fft.rfft(x, n=2 * len(x)), np.fft.irfft(x, 2 * len(x) - 1), np.fft.fft2(x, (len(x), 6))",
    "return np.bincount(np.array([0, 1]) + len(x) - len(x), minlength=len(x))",
)


@pytest.mark.parametrize("text", SAMPLED)
def test_samples_that_keep_the_rules_of_values(text: str) -> None:
    check(text, X)


def test_a_float_that_is_an_argument() -> None:
    function = made("return np.histogram(x, 4, range=(rng, 2 * rng)), np.quantile(x, rng / 8)")
    (have, ends), quantile = jit(function)(X, 3.5)
    (want, wanted), q = function(X, 3.5)
    np.testing.assert_array_equal(have, want)
    np.testing.assert_array_equal(ends, wanted)
    assert quantile == q


def test_sizes_of_transforms_cost_no_compile() -> None:
    fast = jit(lambda x: np.fft.rfft(x, n=2 * len(x)))
    fast(np.arange(5.0))
    count = dlc.counters()["graphs"]
    for n in (6, 9):
        np.testing.assert_array_equal(fast(np.arange(float(n))), np.fft.rfft(np.arange(float(n)), n=2 * n))
    assert dlc.counters()["graphs"] == count


# -- captures ------------------------------------------------------------------------------------------


def test_loops_of_numpys_own_text_are_not_counted() -> None:
    from dlc.arrays import derived

    x = np.arange(6.0)
    shift = derived._copied(np.fft.fftshift)
    for _ in range(2000):  # of known values: no capture is under way
        shift(x)
    np.testing.assert_array_equal(jit(lambda x: np.fft.fftshift(x) * 2)(x), np.fft.fftshift(x) * 2)


@pytest.mark.parametrize(
    "text",
    [
        "np.add(x, x, order='F')",
        "np.spacing(x, order='F')",
        "np.matmul(x, x.T, order='F')",
        "np.zeros_like(x, order='F')",
        "np.array(x, order='F')",
        "np.copy(x, order='F')",
    ],
)
def test_an_order_that_results_have_not(text: str) -> None:
    with pytest.raises(CaptureError, match="order='F' has no compiled form"):
        jit(made(f"return {text}"))(X)


@pytest.mark.parametrize("order", ["C", "K", "A"])
def test_orders_that_are_the_same(order: str) -> None:
    check(f"return np.add(x, x, order='{order}'), np.spacing(x, order='{order}')", X)


# -- a text that no capture made -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["load", "save", "test", "__builtins__", "nothing", ["a"]])
@pytest.mark.parametrize("table", ["ufunc", "gufunc", "ufunc.reduce", "ufunc.outer", "ufunc.at"])
def test_a_text_names_ufuncs_alone(table: str, name: Any) -> None:
    args = [["array", 0], name, 0] if table == "ufunc.at" else [name, "x.npy"]
    name_of_a_list = ["list", name] if isinstance(name, list) else name
    args = [name_of_a_list if a is name else a for a in args]
    with pytest.raises(ValueError, match="is no ufunc of NumPy's"):
        torch.ops.dlc.numpy(json.dumps([table, args, {}, []]), [torch.ones(3)], [])


# -- other versions of NumPy ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_functions_of_c(name: str) -> None:
    ours, numpys = (signature_of(f) for f in (PARAMETERS[name], getattr(np, name)))
    if numpys is None:
        pytest.skip("this version of NumPy does not say them")
    places = [(p.name, p.kind) for p in numpys.parameters.values() if p.kind is not p.KEYWORD_ONLY]
    assert [(p.name, p.kind) for p in ours.parameters.values() if p.kind is not p.VAR_KEYWORD] == places


WITHOUT = """
import numpy as np
for name in ("svdvals", "matrix_norm", "vector_norm", "cross", "diagonal", "matmul", "matrix_transpose",
             "outer", "tensordot", "trace", "vecdot"):
    delattr(np.linalg, name)
for name in ("matvec", "vecmat", "vecdot", "unstack", "cumulative_sum", "cumulative_prod", "bitwise_count",
             "matrix_transpose", "permute_dims", "concat", "astype"):
    delattr(np, name)
import dlc
x = np.arange(6.0)
np.testing.assert_array_equal(dlc.jit(lambda x: np.sort(-x) * 2)(x), np.sort(-x) * 2)
"""


def test_functions_that_only_numpy_2_has() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, timeout=300)
