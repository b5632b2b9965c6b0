"""More of NumPy's vocabulary that is compiled: what NumPy gives, in kernels and without a call of NumPy."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import sliding_window_view

from dlc import CaptureError, captures, trace
from dlc.arrays import host
from dlc.arrays.value import MAX_STEPS
from tests.backend.jitted import jit

# x: of floats or ints, (n, 4) for several n; sorted: (n,), rising.
EXPRESSIONS = (
    "np.average(x, axis=1)", "np.corrcoef(x)", "np.cov(x)", "np.cov(x[:, 0], x[:, 1])",
    "np.cov(x.T, rowvar=False, ddof=0)", "np.diagflat(x[0], 1)", "np.cumulative_sum(x, axis=0)",
    "np.cumulative_sum(x, axis=0, include_initial=True)", "np.cumulative_prod(x, axis=1)", "np.kron(x, x)",
    "np.kron(x[0], x)", "np.nancumprod(x)", "np.nancumsum(x, axis=0)", "np.nanprod(x)", "np.poly(x[0])",
    "np.polyadd(x[0], x[1, 1:])", "np.polysub(x[0], [1, 2])", "np.polyder(x[0])", "np.polyint(x[0])",
    "np.rollaxis(x, 1)", "np.rot90(x) + 0", "np.rot90(x, 2) + 0", "np.rot90(x, -1) + 0", "np.unwrap(x)",
    "np.vander(x[0])", "np.vander(x[0], 3, increasing=True)", "np.split(x[:4], 2)", "np.array_split(x, 3)",
    "np.hsplit(x, 2)", "np.vsplit(x[:4], [1, 3])", "np.dsplit(x[:, :, None], 1)", "np.unstack(x[:3])",
    "np.dstack([x, x])", "np.block([[x, x], [x, x]])", "np.block([x[0], 1.0])", "np.atleast_3d(x)",
    "np.resize(x, (3, 3))", "np.delete(x, 1, axis=0)", "np.delete(x, -1)", "np.insert(x, 1, 5, axis=0)",
    "np.insert(x, -1, x[0], axis=0)", "np.insert(x, len(x), x[0], axis=0)", "np.insert(x, 3, 7)",
    "np.insert(x, 1, x[:, 0], axis=1)", "np.ediff1d(x, to_end=1)",
    "np.ediff1d(x, to_end=[1, 2], to_begin=0)", "np.astype(x, np.float32)", "np.gradient(x)",
    "np.gradient(x, 2.0, axis=0)", "np.gradient(x, edge_order=2)", "np.cross(x[:, :3], x[:, 1:])",
    "np.cross(x[None, :, :3], x[:, 1:], axisc=0)", "np.indices(x.shape)", "np.iscomplex(x * 1j)",
    "np.fromfunction(lambda i, j: i * 2 + j, x.shape)", "np.geomspace(1, 10, len(x))", "np.isneginf(x)",
    "np.logspace(0, 1, len(x))", "np.hanning(len(x))", "np.bartlett(len(x))", "np.hamming(len(x))",
    "np.blackman(len(x))", "np.isposinf(x)", "x[np.ix_([0, 1], [1, 2])]", "x[np.tril_indices(3)]",
    "x[np.triu_indices_from(x[:4, :4])]", "x[np.diag_indices(3)]", "x[np.mask_indices(3, np.triu)]",
    "np.nansum(x, where=x > 0)", "np.ones(x.shape) * np.isscalar(x[0, 0])", "np.ndarray(x.shape) * 0 + 1",
    "np.ndarray((3,), np.float32) * 0", "np.ones(3) * isinstance(x, np.ndarray)",
    # weights that are written down
    "np.convolve(x[:, 0], [1, 2, 1.0])", "np.convolve(x[:, 0], [1, 2, 1.0], 'same')",
    "np.convolve([1, 2], x[:, 0])", "np.convolve(x[:, 0], [1, 2.0], 'same')",
    "np.convolve(x[:, 0], [1, 2, 1.0], 'valid')", "np.correlate(x[:, 0], [1, 2, 1.0, 4], 'same')",
    "np.correlate(x[:, 0], [1, 2, 1j], 'full')", "np.correlate(x[:, 0], [1, 2, 1])",
    # windows, places and pieces
    "np.lib.stride_tricks.sliding_window_view(x, 3, axis=0).mean(-1)", "sliding_window_view(x, (2, 2)) + 0",
    "np.searchsorted(rising, x)", "np.searchsorted(rising, x, side='right')", "rising.searchsorted(x[0])",
    "np.searchsorted(rising, 1.5)", "np.searchsorted(rising[::-1], x, sorter=np.arange(len(x))[::-1])",
    "np.digitize(x, [0, 1, 2.0])", "np.digitize(x, [3, 1, 0.0], right=True)", "np.digitize(x, [3, 1, 0.0])",
    "np.interp(x, rising, x[:, 0])", "np.interp(x, [0, 1, 2.0], [3, 4, 9])",
    "np.interp(1.5, rising, x[:, 0])", "np.interp(x, [0, 1, 2.0], [3, 4, 9], left=-1, right=7)",
    "np.interp(x, [0.0], [3])", "np.piecewise(x, [x < 0, x >= 0], [-1, 1])",
    "np.piecewise(x, [x < 0], [lambda v: -v])",
    "np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v * 2])",
    "np.piecewise(x[0], x[0] < 0, [lambda v, s: -v * s, lambda v, s: v * s], 3)",
    "np.piecewise(x, [x < 0, x > 2], [1, lambda v: v * v, 0])",
    # linear algebra and Fourier transforms that are products and places
    "np.linalg.multi_dot([x, x.T, x])", "np.linalg.outer(x[0], x[1])", "np.linalg.matmul(x, x.T)",
    "np.linalg.cross(x[:, :3], x[:, 1:])", "np.linalg.trace(x)", "np.linalg.vecdot(x, x)",
    "np.linalg.vector_norm(x, axis=1)", "np.linalg.matrix_norm(x)", "np.linalg.matrix_transpose(x)",
    "np.linalg.tensordot(x, x, axes=([0], [0]))", "np.fft.fftfreq(len(x))", "np.fft.rfftfreq(len(x), 0.5)",
    "np.fft.fftshift(x)", "np.fft.ifftshift(x, axes=0)",
)  # fmt: skip
#: What a part of is called all the same.
WITH_CALLS = ("sorter=", "np.poly(", "where=")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def near(have: Any, want: Any) -> None:
    assert type(have) is type(want)
    if isinstance(want, (tuple, list)):
        assert len(have) == len(want)
        for pair in zip(have, want, strict=True):
            near(*pair)
        return
    assert (have.dtype, have.shape) == (want.dtype, want.shape)
    rtol = 2e-5 if want.dtype in (np.float32, np.complex64) else 1e-11
    np.testing.assert_allclose(have, want, rtol=rtol, atol=rtol)


def function_of(expression: str) -> Callable[..., Any]:
    return eval(f"lambda x, rising: {expression}", {"np": np, "sliding_window_view": sliding_window_view})


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    run = host._call
    monkeypatch.setattr(host, "_call", lambda text, *rest: called.append(text.name) or run(text, *rest))
    function = function_of(expression)
    fast = jit(function)
    for dtype in ("float64", "float32", "int64"):
        for n in (6, 5, 9):
            x = (np.random.default_rng(n).standard_normal((n, 4)) * 3).astype(dtype)
            rising = np.sort(x[:, 0]) + np.arange(n)
            near(fast(x, rising), function(x, rising))
    assert not called or any(part in expression for part in WITH_CALLS), called


def test_places_of_nan_and_infinity() -> None:
    ends = np.array([-np.inf, -1.0, 0.0, 0.0, 2.0, np.inf, np.inf, np.nan, np.nan])
    x = np.array([-np.inf, -2.0, -0.0, 0.0, 1.0, 3.0, np.inf, np.nan])
    for side in ("left", "right"):
        for among in (ends, ends[:7], ends[1:5]):
            have = jit(lambda a, v, side=side: np.searchsorted(a, v, side))(among, x)
            np.testing.assert_array_equal(have, np.searchsorted(among, x, side))


def test_interpolation_at_its_edges() -> None:
    f = jit(np_interp)
    x = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.nan, np.inf, -np.inf])
    for xp, fp in (
        ([0.0, 1.0, 2.0], [1.0, np.nan, 3.0]),
        ([0.0, 1.0, 1.0, 2.0], [1.0, 2.0, 5.0, 3.0]),
        ([0.0, 1.0, 2.0], [1.0, np.inf, np.inf]),
        ([0.0, 1.0, np.inf], [1.0, 2.0, 3.0]),
        ([1.0], [4.0]),
    ):
        given = x, np.array(xp), np.array(fp)
        np.testing.assert_array_equal(f(*given), np.interp(*given))
    with pytest.raises(ValueError, match="array of sample points is empty"):
        f(x, np.zeros(0), np.zeros(0))
    with pytest.raises(ValueError, match="not of the same length"):
        f(x, np.zeros(3), np.zeros(4))


def np_interp(x: Any, xp: Any, fp: Any) -> Any:
    return np.interp(x, xp, fp)


def test_sizes_cost_no_compile(compiles: Callable[[], int]) -> None:
    fast = jit(lambda x, rising: (np.interp(x, rising, rising), np.cov(x), np.searchsorted(rising, x)))
    fast(np.ones((6, 4)), np.arange(6.0))
    count = compiles()
    for n in (5, 9, 30):
        fast(np.ones((n, 4)), np.arange(float(n)))
    assert compiles() == count


@pytest.mark.parametrize(
    "statement",
    ["y[::-1] = x", "y[::-1, 1:] = x[:, 1:]", "y[::-1] = 7", "y[3:0:-1] = x[:3]", "y[::-1, 0] = x[:, 0]"],
)
def test_writes_in_reverse_order(statement: str) -> None:
    scope: dict[str, Any] = {"np": np}
    exec(f"def function(x):\n    y = x * 2\n    {statement}\n    return y", scope)
    fast = jit(scope["function"])
    for n in (6, 8):
        x = np.random.default_rng(n).standard_normal((n, 3))
        np.testing.assert_array_equal(fast(x), scope["function"](x))


def test_errors_are_numpys() -> None:
    cases: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
        (lambda x: np.split(x, 4), ValueError, "equal division"),
        (lambda x: np.delete(x, 9), IndexError, "out of bounds"),
        (lambda x: sliding_window_view(x, 9), ValueError, "window shape cannot be larger"),
        (lambda x: np.piecewise(x, [x > 0], [1, 2, 3]), ValueError, "functions are expected"),
        (lambda x: np.searchsorted(x[:, None], x), ValueError, "object too deep"),
        (lambda x: np.digitize(x, [0, 2, 1]), ValueError, "monotonically"),
    ]
    for function, kind, message in cases:
        for call in (function, jit(function)):
            with pytest.raises(kind, match=message):
                call(np.arange(5.0))


# -- loops that are unrolled ---------------------------------------------------------------------------


def steps(x: Any, n: int) -> Any:
    seen = []
    for k in range(n):
        seen.append(k)  # so the loop is not taken as a whole
        x = x + k
    return x


def test_a_loop_has_a_bound() -> None:
    np.testing.assert_array_equal(jit(steps)(np.zeros(2), 50), steps(np.zeros(2), 50))
    message = (
        rf"at most {MAX_STEPS} are.*test_jit_numpy_more.py:{steps.__code__.co_firstlineno + 2}.*one step"
    )
    with pytest.raises(CaptureError, match=message):
        jit(steps)(np.zeros(2), MAX_STEPS + 1)


def test_each_capture_counts_for_itself() -> None:
    fast = jit(steps)
    for dtype in ("float64", "float32"):
        assert fast(np.zeros(2, dtype), MAX_STEPS // 8)[0] == sum(range(MAX_STEPS // 8))


def grid(lo: float, hi: float, n: int, steps: int) -> tuple[Any, Any]:
    x = np.linspace(lo, hi, n)
    z, count = np.zeros((n, n)), np.zeros((n, n), np.int64)
    for k in range(steps):
        inside = np.abs(z) < 2
        count[inside] = k
        z[inside] = z[inside] ** 2 + (x + x[:, None])[inside]
    return z, count


def test_a_function_of_numbers_that_makes_arrays() -> None:
    fast = jit(grid)
    for arguments in ((-2.0, 1.0, 5, 40), (-2.0, 1.5, 5, 40), (-1.0, 1.0, 4, 3), (0.0, 0.0, 0, 3)):
        for want, got in zip(grid(*arguments), fast(*arguments), strict=True):
            assert type(got) is np.ndarray and got.dtype == want.dtype
            np.testing.assert_allclose(got, want)


def test_what_calls_numpy_is_captured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph with calls takes tensors, for which the same capture holds."""
    captured: list[Any] = []
    capture = trace.capture

    def counted(*args: Any, **kwargs: Any) -> Any:
        captured.append(args)
        return capture(*args, **kwargs)

    monkeypatch.setattr(trace, "capture", counted)

    def ranked(x: Any, first: float) -> Any:
        x[0] = first
        return np.sort(x * 2)

    fast = jit(ranked)
    for x in (np.array([3.0, 1.0, 2.0]), np.array([5.0, 4.0])):
        y = x.copy()
        np.testing.assert_array_equal(fast(x, 2.5), ranked(y, 2.5))
        np.testing.assert_array_equal(x, y)
    assert len(captured) == 1


# -- what is traced --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("parts", [2, 3, 4, 5])
def test_sums_over_parts_of_points_have_numpys_bits(dtype: str, parts: int) -> None:
    x = (np.random.default_rng(0).random((40, 6, parts)) * 100).astype(dtype)
    for function in (lambda x: x.sum(axis=-1), lambda x: np.sum(x, axis=2, keepdims=True)):
        np.testing.assert_array_equal(jit(function)(x), function(x))


def nearest(x: Any, centres: Any) -> Any:
    return ((x[:, None] - centres[None]) ** 2).sum(axis=-1).argmin(axis=1)


def test_distances_are_in_the_kernel_of_what_is_nearest(capfd: pytest.CaptureFixture[str]) -> None:
    """A sum over a point's parts is no reduction beside the one over the centres."""
    rng = np.random.default_rng(0)
    x, centres = rng.random((100, 3)), rng.random((6, 3))
    capfd.readouterr()
    found = jit(nearest, dump="fuse", cache=False)(x, centres)
    np.testing.assert_array_equal(found, nearest(x, centres))
    assert capfd.readouterr().err.count("= kernel {") == 1


def differences(x: Any) -> Any:
    return (x[1:, 1:] - x[:-1, 1:] + x[1:, :-1] - x[:-1, :-1]) * x[1:, 1:] + x[:-1, 1:]


def rewritten(x: Any) -> Any:
    before = x[1:, 1:].copy()
    x[1:, 1:] += differences(x)
    return x[1:, 1:] - before + x[1:, :-1] * x[:-1, :-1]


def test_a_view_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two slices of the first axis and four of these are six; what is written to an array is in its views."""
    x, made = np.random.default_rng(0).random((7, 9)), []
    add = captures.Captures._compiled

    def noted(self: Any, captured: Any, fixed: Any) -> Any:
        slices = captured.graph.graph.find_nodes(op="call_function", target=torch.ops.aten.slice.Tensor)
        made.append(len(slices))
        return add(self, captured, fixed)

    monkeypatch.setattr(captures.Captures, "_compiled", noted)
    ours, theirs = x.copy(), x.copy()
    np.testing.assert_allclose(jit(differences)(ours), differences(theirs), rtol=1e-12)
    assert made == [6]
    np.testing.assert_allclose(jit(rewritten)(ours), rewritten(theirs), rtol=1e-12)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
