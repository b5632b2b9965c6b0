"""The table of NumPy's functions that are called: the sizes of their results, by those of their arguments.

A rule has the parameters of NumPy's function, and reads the shapes of arrays, no more of them. The functions
of `BY_SIZE` have no rule. NumPy says what they return for the sizes of a call, and a variant is for these
sizes alone.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..trace import Never
from . import host
from .host import calls
from .index import check_write, write
from .names import OTHERWISE, named
from .shapes import check_order
from .value import Array, Unknown, is_array, is_symbol, lift, refuse, torch_dtype

Sizes = list[Any]


def count(shape: Any) -> Any:
    total: Any = 1
    for n in shape:
        total = total * n
    return total


def along(a: Any, axis: Any) -> Sizes:
    """The shape of what is computed along an axis, of all elements where there is none."""
    return [count(np.shape(a))] if axis is None else list(np.shape(a))


def reduced(a: Any, axis: Any, keepdims: Any) -> Sizes:
    shape = list(np.shape(a))
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    gone = {ax % len(shape) for ax in axes}
    if keepdims is True:
        return [1 if ax in gone else n for ax, n in enumerate(shape)]
    return [n for ax, n in enumerate(shape) if ax not in gone]


def together(*shapes: Any) -> Sizes:
    """The shape that arrays of these are broadcast to."""
    rank = max(map(len, shapes))
    padded = [[1] * (rank - len(shape)) + list(shape) for shape in shapes]
    return [
        next((n for n in sizes if not (isinstance(n, int) and n == 1)), 1)
        for sizes in zip(*padded, strict=True)
    ]


def _whole(value: Any, what: str) -> Any:
    """An int or a size."""
    if is_array(value) or not (is_symbol(value) or isinstance(value, (int, np.integer))):
        refuse(f"{what} is no int", "the size of the result is not known otherwise")
    return value


# -- sorting and searching -----------------------------------------------------------------------------


@calls(np.sort, np.argsort)
def _sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Sizes:
    return [along(a, axis)]


@calls(np.partition, np.argpartition)
def _partition(a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> Sizes:
    return [along(a, axis)]


@calls(np.sort_complex)
def _sort_complex(a: Any) -> Sizes:
    return [list(a.shape)]


@calls(np.lexsort)
def _lexsort(keys: Any, axis: Any = -1) -> Sizes:
    return [list(np.shape(keys)[1:] if hasattr(keys, "shape") else np.shape(keys[0]))]


@calls(np.asarray_chkfinite)
def _asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Sizes:
    return [list(np.shape(a))]


def _checked(a: Any, dtype: Any = None, order: Any = None) -> Array:
    """The operand itself, as in NumPy, whose elements are from now on what the check returned.

    So the check is left out of no program that reads the operand after it.
    """
    check_order(order)
    array, own = lift(a), dtype is None or (is_array(a) and np.dtype(dtype) == a.dtype)
    if not is_array(a) or array.scalar or not own:
        tensor = array.tensor if dtype is None else array.tensor.to(torch_dtype(dtype))
        return host.call("asarray_chkfinite", Array(tensor))
    if array.lazy:
        refuse(
            "np.asarray_chkfinite of a view that is reversed, broadcast or chosen by a value",
            "check the array itself",
            Never,
        )
    checked = host.call("asarray_chkfinite", array)
    if array.root.argument is None or array.root.writes:
        write(array, checked.tensor)
    else:
        array.replace(checked.tensor)
        array.root.fixed = "it writes to an argument that np.asarray_chkfinite has checked"
    return array


OTHERWISE[np.asarray_chkfinite] = _checked


@calls(np.unravel_index)
def _unravel_index(indices: Any, shape: Any, order: Any = "C") -> Sizes:
    return [list(np.shape(indices))] * (len(shape) if isinstance(shape, (tuple, list)) else 1)


@calls(np.ravel_multi_index)
def _ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Sizes:
    return [together(*(np.shape(index) for index in multi_index))]


@calls(np.isin)
def _isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Sizes:
    return [list(np.shape(element))]


# -- statistics of order -------------------------------------------------------------------------------


@calls(np.median, np.nanmedian)
def _median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: Any = False
) -> Sizes:
    return [reduced(a, axis, keepdims)]


@calls(np.nanargmax, np.nanargmin, casting="equiv")
def _place(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Sizes:
    return [reduced(a, axis, keepdims)]


@calls(np.percentile, np.quantile, np.nanpercentile, np.nanquantile)
def _quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
    keepdims: Any = False, *, weights: Any = None,
) -> Sizes:  # fmt: skip
    return [[*np.shape(q), *reduced(a, axis, keepdims)]]


def _edges(bins: Any) -> Any:
    """How many bins there are."""
    if isinstance(bins, str):
        refuse(f"the number of bins of np.histogram(bins={bins!r}) depends on the values", "give a number")
    return bins.shape[0] - 1 if np.ndim(bins) else _whole(bins, "bins=")


@calls(np.histogram)
def _histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Sizes:
    bins = np.asarray(bins) if isinstance(bins, (list, tuple)) else bins
    return [[_edges(bins)], [_edges(bins) + 1]]


@calls(np.histogram_bin_edges)
def _histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Sizes:
    bins = np.asarray(bins) if isinstance(bins, (list, tuple)) else bins
    return [[_edges(bins) + 1]]


@calls(np.histogram2d)
def _histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None
) -> Sizes:
    one, other = bins if isinstance(bins, (list, tuple)) and len(bins) == 2 else (bins, bins)
    m, n = _edges(one), _edges(other)
    return [[m, n], [m + 1], [n + 1]]


@calls(np.bincount, fills={"x": 0})
def _bincount(x: Any, /, weights: Any = None, minlength: Any = 0) -> Sizes:
    if not isinstance(minlength, int) or minlength:
        return [[_whole(minlength, "minlength=")]]
    refuse(
        "the size of np.bincount's result depends on the greatest value",
        "give minlength=n, at least 1, if all values are below n",
    )


@calls(np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.any, np.all)
def _reduction(a: Any, axis: Any = None, *rest: Any, keepdims: Any = False, **options: Any) -> Sizes:
    return [reduced(a, axis, keepdims)]


# -- products, correlations, differences ---------------------------------------------------------------


def overlaps(m: Any, n: Any, mode: Any) -> Any:
    if mode == "full":
        return m + n - 1
    longer, shorter = (m, n) if m >= n else (n, m)  # a condition of the variant
    return longer if mode == "same" else longer - shorter + 1


@calls(np.correlate)
def _correlate(a: Any, v: Any, mode: Any = "valid") -> Sizes:
    return [[overlaps(np.shape(a)[0], np.shape(v)[0], mode)]]


@calls(np.i0)
def _of_elements(x: Any) -> Sizes:
    return [list(x.shape)]


# -- linear algebra ------------------------------------------------------------------------------------

linalg = np.linalg


@calls(linalg.inv, small=True)
def _inv(a: Any) -> Sizes:
    return [list(a.shape)]


@calls(linalg.cholesky, small=True)
def _cholesky(a: Any, /, *, upper: bool = False) -> Sizes:
    return [list(a.shape)]


@calls(linalg.matrix_power, small=True)
def _matrix_power(a: Any, n: Any) -> Sizes:
    return [list(a.shape)]


@calls(linalg.pinv, small=True)
def _pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Sizes:
    *outer, m, n = a.shape
    return [[*outer, n, m]]


@calls(linalg.solve, small=True)
def _solve(a: Any, b: Any) -> Sizes:
    if len(b.shape) == 1:
        return [[*a.shape[:-2], *b.shape]]
    return [[*together(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]]]


@calls(linalg.det, small=True)
def _det(a: Any) -> Sizes:
    return [list(a.shape[:-2])]


@calls(linalg.slogdet, small=True)
def _slogdet(a: Any) -> Sizes:
    return [list(a.shape[:-2])] * 2


@calls(linalg.matrix_rank, small=True)
def _matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Sizes:
    return [list(A.shape[:-2])]


@calls(linalg.cond, small=True)
def _cond(x: Any, p: Any = None) -> Sizes:
    return [list(x.shape[:-2])]


@calls(linalg.eigvalsh, small=True)
def _eigvalsh(a: Any, UPLO: str = "L") -> Sizes:
    return [list(a.shape[:-1])]


@calls(linalg.eigh, small=True)
def _eigh(a: Any, UPLO: str = "L") -> Sizes:
    return [list(a.shape[:-1]), list(a.shape)]


def _eigen(function: Any, *results: Any) -> None:
    host.enter(function, lambda a: [shape(a) for shape in results], True)

    def ours(a: Any) -> Any:
        if a.dtype.kind != "c":
            refuse(
                f"np.{host.named(function)} of real numbers returns complex ones for some values",
                "np.linalg.eigh of a symmetric matrix, or give it a.astype(complex)",
                Never,
            )
        return host.call(host.named(function), a)

    OTHERWISE[function] = ours


_eigen(linalg.eigvals, lambda a: list(a.shape[:-1]))
_eigen(linalg.eig, lambda a: list(a.shape[:-1]), lambda a: list(a.shape))


@calls(linalg.svd, small=True)
def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Sizes:
    *outer, m, n = a.shape
    k = m if m <= n else n
    if not compute_uv:
        return [[*outer, k]]
    return [[*outer, m, m if full_matrices else k], [*outer, k], [*outer, n if full_matrices else k, n]]


@calls(*named("svdvals", of=linalg), small=True)
def _svdvals(x: Any, /) -> Sizes:
    *outer, m, n = x.shape
    return [[*outer, m if m <= n else n]]


@calls(linalg.qr, small=True)
def _qr(a: Any, mode: str = "reduced") -> Sizes:
    *outer, m, n = a.shape
    k = m if m <= n else n
    if mode == "r":
        return [[*outer, k, n]]
    if mode == "raw":
        return [[*outer, n, m], [*outer, k]]
    return [[*outer, m, m], list(a.shape)] if mode == "complete" else [[*outer, m, k], [*outer, k, n]]


# -- Fourier transforms --------------------------------------------------------------------------------

fft = np.fft


def _replaced(shape: Any, axis: Any, n: Any) -> Sizes:
    axis %= len(shape)
    return [*shape[:axis], n, *shape[axis + 1 :]]


@calls(fft.fft, fft.ifft)
def _fft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Sizes:
    return [_replaced(a.shape, axis, a.shape[axis] if n is None else n)]


@calls(fft.rfft, fft.ihfft)
def _rfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Sizes:
    return [_replaced(a.shape, axis, (a.shape[axis] if n is None else n) // 2 + 1)]


@calls(fft.irfft, fft.hfft)
def _irfft(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: Any = None) -> Sizes:
    return [_replaced(a.shape, axis, (a.shape[axis] - 1) * 2 if n is None else n)]


def _several(a: Any, s: Any, axes: Any, last: Any = None) -> Sizes:
    shape = list(a.shape)
    axes = range(len(shape))[-len(s) :] if axes is None and s is not None else axes
    axes = list(range(len(shape)) if axes is None else axes)
    for k, axis in enumerate(axes):
        given = None if s is None or s[k] == -1 else s[k]
        if k == len(axes) - 1 and last is not None:
            shape[axis] = last(shape[axis], given)
        elif given is not None:
            shape[axis] = given
    return shape


def _fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, out: Any = None) -> Sizes:
    return [_several(a, s, axes)]


def _fftn(a: Any, s: Any = None, axes: Any = None, norm: Any = None, out: Any = None) -> Sizes:
    return [_several(a, s, axes)]


def _half(n: Any, given: Any) -> Any:
    return (n if given is None else given) // 2 + 1


def _double(n: Any, given: Any) -> Any:
    return (n - 1) * 2 if given is None else given


def _real(default: Any, last: Any) -> Any:
    def rule(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Sizes:
        return [_several(a, s, axes, last)]

    return rule


calls(fft.fft2, fft.ifft2)(_fft2)
calls(fft.fftn, fft.ifftn)(_fftn)
calls(fft.rfft2)(_real((-2, -1), _half))
calls(fft.irfft2)(_real((-2, -1), _double))
calls(fft.rfftn)(_real(None, _half))
calls(fft.irfftn)(_real(None, _double))

# -- without a rule ------------------------------------------------------------------------------------

#: Their results' sizes follow from sizes of arguments in some other way.
BY_SIZE = (
    np.histogramdd, np.packbits, np.unpackbits, np.average, np.choose, np.cross, np.gradient, np.cov,
    np.matmul, np.dot, np.inner, np.vdot, np.tensordot, np.einsum, np.trace,
    linalg.norm, *named("matrix_norm", "vector_norm", of=linalg),
)  # fmt: skip
#: The rules by which results of some of them are cast to out=.
_CASTINGS = {np.dot: "no", np.einsum: "safe"}

for _function in BY_SIZE:
    _index = {"a": 0} if _function is np.choose else None
    host.enter(_function, fills=_index, casting=_CASTINGS.get(_function))


host.enter(np.polyfit)


def _polyfit(x: Any, y: Any, deg: Any, *rest: Any, **options: Any) -> Any:
    return host.call("polyfit", x + 0.0, y + 0.0, deg, *rest, **options)  # as NumPy begins


OTHERWISE[np.polyfit] = _polyfit


def _least_squares(a: Any, b: Any, rcond: Any = None) -> Any:
    x, _, rank, s = linalg.lstsq(a, b, rcond)
    return x, rank, s


def _least_squares_sizes(a: Any, b: Any, rcond: Any = None) -> Sizes:
    m, n = a.shape
    return [[n, *b.shape[1:]], [], [m if m <= n else n]]


host.enter(linalg.lstsq, _least_squares_sizes, True, _least_squares)


def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    x, rank, s = host.call("linalg.lstsq", a, b, rcond)
    why = "the size of np.linalg.lstsq's residuals depends on the rank"
    return x, Unknown(why, "write b - a @ x"), rank, s


OTHERWISE[linalg.lstsq] = _lstsq


# -- ufuncs --------------------------------------------------------------------------------------------


def _ufunc(name: str) -> np.ufunc:
    """NumPy's ufunc of this name. Nothing else of NumPy's is had by a text: it may be of a file."""
    found = getattr(np, name, None) if isinstance(name, str) else None
    if not isinstance(found, np.ufunc):
        raise ValueError(f"{name!r} is no ufunc of NumPy's")
    return found


def _method(name: str) -> Any:
    return lambda ufunc, *args, **options: getattr(_ufunc(ufunc), name)(*args, **options)


def _elements(ufunc: str, *operands: Any, **options: Any) -> Sizes:
    return [together(*map(np.shape, operands))] * _ufunc(ufunc).nout


def _fold(
    ufunc: str, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False,
    initial: Any = None, where: Any = True,
) -> Sizes:  # fmt: skip
    return [reduced(array, axis, keepdims)]


def _accumulated(ufunc: str, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Sizes:
    return [list(array.shape)]


def _folds(ufunc: str, array: Any, indices: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Sizes:
    return [_replaced(array.shape, axis, len(indices))]


for _name, _rule, _by_rule in (
    ("ufunc", _elements, True),
    ("gufunc", _elements, False),
    ("ufunc.reduce", _fold, True),
    ("ufunc.accumulate", _accumulated, True),
    ("ufunc.reduceat", _folds, True),
    ("ufunc.outer", _elements, False),
):
    _run = _method(_name.partition(".")[2] or "__call__")
    host.CALLED[_name] = host.Called(
        _run, _rule if _by_rule else None, fills=host.FILLS, signature=host.signature_of(_rule)
    )

# -- functions that write to their first argument ------------------------------------------------------


def _changes(function: Any, name: str) -> Any:
    """function, of an array that it writes to: called with a copy, which is written back."""

    def run(array: np.ndarray, *args: Any, **options: Any) -> np.ndarray:
        made = array.copy()
        function(made, *args, **options)
        return made

    def ours(array: Any, *args: Any, **options: Any) -> None:
        if not is_array(array):
            refuse("it writes to an array that NumPy made", "make it in the function")
        check_write(array)
        write(array, host.call(name, array, *args, **options).tensor)

    host.CALLED[name] = host.Called(
        run,
        lambda array, *args, **options: [list(array.shape)],
        signature=host.signature_of(run),
        changes=True,
    )
    return ours


for _function in (np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis):
    OTHERWISE[_function] = _changes(_function, host.named(_function))

put_items = _changes(operator.setitem, "setitem")
_at = _changes(lambda array, ufunc, *rest: _ufunc(ufunc).at(array, *rest), "ufunc.at")


def ufunc_at(ufunc: np.ufunc, array: Any, *rest: Any) -> None:
    """ufunc.at(array, indices[, values])"""
    _at(array, ufunc.__name__, *rest)
