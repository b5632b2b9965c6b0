"""Functions of NumPy that a compiled program calls: NumPy's bits, dtypes, types and errors, for all sizes."""

import gc
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from dlc import CaptureError
from dlc.arrays.host import CALLED
from tests.backend.jitted import jit

# x: of floats, (n, 4) for several n.  k: of ints, (n,), from 0 to 9.
EXPRESSIONS = (
    "np.sort(x)", "np.sort(x * 2, axis=0) + 1", "np.sort(x, axis=None)", "np.argsort(x, axis=0)",
    "np.argsort(k, kind='stable')", "x.argsort(axis=None)", "np.partition(x, 1)", "np.sort(x[x > 0])",
    "np.argpartition(x, 1, axis=None)", "np.lexsort((x[:, 0], k))", "np.isin(k, [1, 2])",
    "np.isin(x, x[0])", "np.sort_complex(x[0] + 1j)", "x.argpartition(2)", "np.median(x)",
    "np.median(x, axis=0)", "np.median(x, axis=0, keepdims=True)", "np.nanmedian(x, axis=-1)",
    "np.percentile(x, 30)", "np.percentile(x, [30, 40], axis=1)", "np.quantile(x, 0.25, axis=(0, 1))",
    "np.median(x[x < 9])", "np.nanquantile(x, [[0.25]], method='lower')",
    "np.nanpercentile(x, x[0, 0] * 0 + 5)", "np.histogram(x)", "np.histogram(x, bins=5, range=(0, 1))",
    "np.histogram(x, bins=[0, 1, 2, 3.0])", "np.histogram(x, bins=len(x))", "np.histogram_bin_edges(x, 7)",
    "np.histogram2d(x[:, 0], x[:, 1])", "np.histogram2d(x[:, 0], x[:, 1], bins=(3, 4))",
    "np.histogramdd(x, bins=3)", "np.bincount(k, minlength=10)",
    "np.bincount(k, weights=x[:, 0], minlength=10)", "np.correlate(x[:, 0], x[0])",
    "np.correlate(x[:, 0], x[0], 'full')", "np.i0(x)", "np.polyfit(x[:, 0], x[:, 1], 2)",
    "np.average(x, axis=0, weights=abs(x[:, 0]))", "np.packbits(x > 0, axis=0)",
    "np.unpackbits(x.astype(np.uint8), axis=1)", "np.choose(k % 2, [k, -k])", "np.convolve(x[:, 0], x[0])",
    "np.digitize(x, np.sort(x[:, 0]))", "np.interp(x, x[0], x[1], period=4)", "np.asarray_chkfinite(x)",
    "np.unravel_index(k, (3, 4))", "np.ravel_multi_index((k, k), (9, 9))", "np.nanargmax(x)",
    "np.nanargmin(x, axis=0)", "np.cov(x, fweights=[1, 2, 1, 3])",
    # sums of some, with a start, and what the compiled forms leave out
    "np.sum(x, initial=3.0)", "np.mean(x, where=x > 0)", "np.max(x, axis=0, initial=0.5)",
    "x.sum(where=x > 1)", "np.any(x, where=x > 0)", "np.prod(x, initial=2.0)", "np.min(x, initial=0.0)",
    "np.all(x, where=x > 0)", "np.std(x, where=x > 0)", "np.var(x, axis=0, where=x > 0)",
    "np.dot(x[None], x.T[None])", "np.inner(x[None, None], x[None, None])", "np.cross(x[:, :2], x[:, :2])",
    "np.gradient(x, 2.0)", "np.gradient(x[0], np.arange(4.0) ** 2)",
    "np.matmul(x.astype('f2'), x.astype('f2').T)", "np.vdot(x.astype('f2'), x.astype('f2'))",
    "np.tensordot(x.astype('f2'), x.astype('f2'), ((0,), (0,)))", "np.einsum('ij->j', x.astype('f2'))",
    "np.trace(x, dtype='f4')",
    # linear algebra
    "np.linalg.inv(x.T @ x + np.eye(4))", "np.linalg.cholesky(x.T @ x + np.eye(4))", "np.linalg.pinv(x)",
    "np.linalg.solve(x.T @ x + np.eye(4), x.T)", "np.linalg.solve(x.T @ x + np.eye(4), x[0])",
    "np.linalg.det(x.T @ x)", "np.linalg.slogdet(x.T @ x)", "np.linalg.matrix_rank(x)", "np.linalg.cond(x)",
    "np.linalg.eigvalsh(x.T @ x)", "np.linalg.eigh(x.T @ x)",
    "np.linalg.eigvals((x.T @ x).astype(complex))", "np.linalg.eig((x.T @ x).astype(complex))",
    "np.linalg.svd(x)", "np.linalg.svd(x, full_matrices=False)", "np.linalg.svd(x).S * 2",
    "np.linalg.svd(x, compute_uv=False)", "np.linalg.svdvals(x)", "np.linalg.qr(x)",
    "np.linalg.qr(x, 'complete')", "np.linalg.qr(x, 'r')", "np.linalg.qr(x, 'raw')",
    "np.linalg.lstsq(x, x[:, 0])[0]", "np.linalg.lstsq(x, x)[2:]", "np.linalg.matrix_power(x.T @ x, 3)",
    "np.linalg.norm(x, 'nuc')", "np.linalg.norm(x, ord=1, axis=(0, 1))", "np.linalg.matrix_norm(x, ord=2)",
    "np.linalg.vector_norm(x, ord=3)",
    # Fourier transforms
    "np.fft.fft(x)", "np.fft.ifft(x, axis=0)", "np.fft.rfft(x)", "np.fft.rfft(x, n=7)", "np.fft.irfft(x)",
    "np.fft.hfft(x)", "np.fft.ihfft(x)", "np.fft.fft2(x)", "np.fft.ifft2(x)", "np.fft.ifftn(x)",
    "np.fft.fftn(x, s=(3, 5), axes=(0, 1))", "np.fft.rfft2(x)", "np.fft.irfft2(x)",
    "np.fft.fft(x, norm='ortho')", "np.fft.rfftn(x, axes=(1, 0))", "np.fft.irfftn(x)",
    "np.fft.irfft(np.fft.rfft(x) * 2, n=x.shape[1])",
    # ufuncs
    "np.spacing(x)", "np.frexp(x)", "np.modf(x)", "np.ldexp(x, k[:, None])", "np.lcm(k, 6)",
    "np.bitwise_count(k)", "np.vecdot(x, x)", "k ** k", "np.hypot.reduce(x)",
    "np.maximum.accumulate(x, axis=1)", "np.add.reduceat(x, [0, 2])", "np.add.reduceat(x, [0, 2], axis=1)",
    "np.add.outer(x, x, dtype='f8')", "np.spacing(x, out=np.empty_like(x))",
)  # fmt: skip

# y: a copy of x, which they write to.  i: places, of which one is named twice; v: a row for each.
WRITES = (
    "np.add.at(y, i, v)", "np.add.at(y, i, 1)", "np.maximum.at(y, i, v)", "np.subtract.at(y[1:], i, v)",
    "np.negative.at(y, i)", "y[i] = v", "y[i, 0] = v[:, 0]", "y[:, 0][i] = v[:, 0]", "y[1:][i] = v[::-1]",
    "y[i] += v", "np.put(y, i, v[:, 0])", "np.place(y, y > 0, [1.0, 2.0])", "np.putmask(y, y > 0, v[0])",
    "np.copyto(y, v[0])", "np.copyto(y, v[0], where=y > 0)", "np.fill_diagonal(y, 7)",
    "np.put_along_axis(y, i[:, None], 5.0, axis=0)", "y.sort()", "y.sort(axis=0)", "y.partition(1)",
    "y.put(i, v[:, 0])", "np.median(y, axis=1, out=y[:, 0])",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def same(have: Any, want: Any) -> None:
    """The same bits, of the same types."""
    assert type(have) is type(want)
    if isinstance(want, (tuple, list)):
        assert len(have) == len(want)
        for pair in zip(have, want, strict=True):
            same(*pair)
        return
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(have, want)


def near(have: Any, want: Any) -> None:
    """Of a product that was compiled the last bits may be others, and so those of what is called with it."""
    assert type(have) is type(want)
    if isinstance(want, (tuple, list)):
        for pair in zip(have, want, strict=True):
            near(*pair)
        return
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-9)


def arguments(n: int, dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    return (rng.standard_normal((n, 4)) * 3).astype(dtype), rng.integers(0, 9, n)


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression: str) -> None:
    function = eval(f"lambda x, k: {expression}", {"np": np})
    fast = jit(function)
    for n in (6, 5, 9):
        x, k = arguments(n, "float64")
        want = function(x, k)
        product = "@" in expression or "vecdot" in expression
        (near if product else same)(fast(x, k), want)


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("statement", WRITES)
def test_writes(statement: str) -> None:
    scope: dict[str, Any] = {"np": np}
    exec(f"def function(x, i, v):\n    y = x.copy()\n    {statement}\n    return y", scope)
    function, i, v = scope["function"], np.array([0, 2, 2, 1]), np.arange(16.0).reshape(4, 4)
    fast = jit(function)
    for n in (6, 8):
        x, _ = arguments(n, "float64")
        same(fast(x, i, v), function(x, i, v))


def test_every_function_of_the_table_is_here() -> None:
    text = " ".join((*EXPRESSIONS, *WRITES))
    missing = [
        name
        for name in CALLED
        if not name.startswith(("Generator.", "ufunc", "gufunc", "setitem"))
        and not re.search(rf"(np|[xyk])\.{re.escape(name)}\(", text)
    ]
    assert not missing


def test_sizes_cost_no_compile(compiles: Callable[[], int]) -> None:
    fast = jit(lambda x: (np.sort(x, axis=0) * 2, np.linalg.svd(x, full_matrices=False).S, np.fft.rfft(x)))
    fast(arguments(6, "float64")[0])
    count = compiles()
    for n in (7, 9, 30):
        fast(arguments(n, "float64")[0])
    assert compiles() == count


def test_dtypes_are_numpys() -> None:
    def f(x: Any) -> Any:
        return (
            np.sort(x),
            np.median(x),
            np.fft.fft(x),
            np.linalg.norm(x, 1),
            np.histogram(x, 3),
            np.argsort(x),
        )

    for dtype in ("float32", "int32", "uint8", "float16"):
        if dtype != "float16":
            x = abs(arguments(6, dtype)[0])
            same(jit(f)(x), f(x))
    half = arguments(6, "float16")[0]
    same(jit(np_sorted)(half), np_sorted(half))


def np_sorted(x: Any) -> Any:
    return np.sort(x), np.median(x, axis=0)


# -- what is not known when a function is captured -----------------------------------------------------

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "bincount": (
        lambda x: np.bincount(x.astype(int)),
        "the size of .* depends on the greatest value .*: give minlength=n",
    ),
    "histogram": (lambda x: np.histogram(x, bins="auto"), "the number of bins of .* depends on the values"),
    "eigvals": (lambda x: np.linalg.eigvals(x * x[:, None]), r"complex ones .*astype\(complex\)"),
    "residuals": (
        lambda x: np.linalg.lstsq(x * x[:, None], x)[1] * 2,
        "size of .*residuals depends on the rank",
    ),
    "all of lstsq": (lambda x: np.linalg.lstsq(x * x[:, None], x), "residuals depends on the rank"),
    "unique": (lambda x: np.unique(x), "its size depends on the values"),
    "object": (lambda x: np.isin(x, {1, 2}), "an argument of type set"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_line(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(CaptureError, match=message) as raised:
        jit(function)(np.arange(1.0, 4.0))
    line = f"test_jit_called.py:{function.__code__.co_firstlineno}"
    assert line in str(raised.value) or name == "all of lstsq"


def test_a_result_of_another_size_is_an_error_of_the_call() -> None:
    fast = jit(lambda k: np.bincount(k, minlength=4) * 2)
    np.testing.assert_array_equal(fast(np.array([0, 3, 3])), [2, 0, 0, 4])
    with pytest.raises(
        ValueError, match=r"np.bincount returned an array of int64 of shape \(6,\), where .*\(4,\)"
    ):
        fast(np.array([0, 5]))
    np.testing.assert_array_equal(fast(np.array([1])), [0, 2, 0, 0])


def test_errors_are_numpys() -> None:
    fast = jit(lambda a: np.linalg.inv(a) * 2)
    np.testing.assert_array_equal(fast(np.eye(3)), 2 * np.eye(3))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        fast(np.zeros((3, 3)))
    with pytest.raises(np.linalg.LinAlgError, match="must be square"):
        fast(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="negative integer powers"):
        jit(lambda a, b: a**b)(np.array([2, 3]), np.array([1, -1]))
    np.testing.assert_array_equal(fast(np.eye(2)), 2 * np.eye(2))


def test_a_call_sees_what_is_written_before_it_and_nothing_later() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        first = np.sort(y)
        y[0] = 100.0
        second = np.sort(y)
        y[:] = second[::-1]
        first[0] = -7.0
        return first, second, y, np.sort(y)[0]

    for n in (5, 8):
        x = np.random.default_rng(n).standard_normal(n)
        same(jit(f)(x), f(x))


# -- the operator --------------------------------------------------------------------------------------


def test_nothing_is_kept_for_a_call() -> None:
    """The table has the functions, and the text of a call is in the graph alone."""
    before = len(CALLED)
    for k in range(3):
        fast = jit(eval(f"lambda x: np.sort(x * {k})", {"np": np}))
        fast(np.arange(3.0))
        del fast
    gc.collect()
    assert len(CALLED) == before


def test_only_functions_of_the_table_are_called() -> None:
    with pytest.raises(KeyError):
        torch.ops.dlc.numpy('["savetxt", ["x"], {}, []]', [torch.ones(3)], [])
