"""dlc.jit called with arrays: what NumPy computes, of its dtypes, as arrays where NumPy gives arrays."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from dlc import CaptureError
from tests.backend.jitted import jit
from tests.backend.numpy_programs import INTS, PROGRAMS, Program
from tests.tolerance import assert_program

SIZES = (7, 0, 1)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def maker(dtype: str, layout: str, seed: int) -> Callable[..., Any]:
    """make(*shape): an array of the dtype that lies so in memory."""
    rng = np.random.default_rng(seed)

    def make(*shape: int) -> Any:
        whole = rng.standard_normal((2 * shape[0], *shape[1:])) * 2
        array = (
            whole > 0
            if dtype == "bool"
            else np.round(whole * 3 if "int" in dtype else whole, 3).astype(dtype)
        )
        if layout == "every other":
            return array[::2]
        if layout == "reversed":
            return array[: shape[0]][::-1]
        if layout == "columns first":
            return np.asfortranarray(array[: shape[0]])
        return np.ascontiguousarray(array[: shape[0]])

    return make


def named(result: Any) -> dict[str, Any]:
    items = result if isinstance(result, tuple) else (result,)
    return {str(k): item for k, item in enumerate(items)}


def wide(value: Any) -> Any:
    """The argument in long double."""
    if not isinstance(value, np.ndarray) or value.dtype == bool:
        return value
    return value.astype(np.clongdouble if value.dtype.kind == "c" else np.longdouble)


def parts(items: dict[str, Any], like: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Floating items as tensors, complex ones as two."""
    found = {}
    for name, item in like.items():
        kind = getattr(item, "dtype", np.dtype(object)).kind
        if kind in "fc":
            value = np.asarray(items[name])
            pieces = {"re": value.real, "im": value.imag} if kind == "c" else {"": value}
            to = (
                item.real.dtype
                if items is not like and value.dtype.itemsize <= 8 * (2 if kind == "c" else 1)
                else None
            )
            for piece, numbers in pieces.items():
                numbers = np.array(
                    numbers, np.float64 if numbers.dtype == np.longdouble else to or numbers.dtype
                )
                found[f"{name}{piece}"] = torch.from_numpy(np.ascontiguousarray(numbers))
    return found


def assert_like_numpy(have: Any, want: Any, exact: Any = None) -> None:
    have, want = named(have), named(want)
    assert have.keys() == want.keys()
    for name, item in want.items():
        assert type(have[name]) is type(item), f"{name}: {type(have[name])}, NumPy has {type(item)}"
        if not isinstance(item, (np.ndarray, np.generic)):
            assert have[name] == item
            continue
        assert have[name].dtype == item.dtype, f"{name}: {have[name].dtype}, NumPy has {item.dtype}"
        assert have[name].shape == item.shape
        if item.dtype.kind not in "fc":
            np.testing.assert_array_equal(have[name], item)
    truth = named(exact) if exact is not None else want
    assert_program(parts(have, want), parts(want, want), parts(truth, want))


def check(program: Program, fast: Any, dtype: str, layout: str, n: int) -> None:
    args = program.arguments(maker(dtype, layout, n), n)
    try:
        want = program.function(*args)
    except (ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            fast(*args)
        return
    whole = program.dtypes == INTS or dtype == "bool"
    exact = None if whole else program.function(*map(wide, args))
    assert_like_numpy(fast(*args), want, exact)


@pytest.mark.in_turn(16)
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n, p in PROGRAMS.items() for d in p.dtypes])
def test_program(name: str, dtype: str) -> None:
    program = PROGRAMS[name]
    fast = jit(program.function)
    for n in SIZES:
        check(program, fast, dtype, "dense", n)
    for layout in "every other", "reversed", "columns first":
        check(program, fast, dtype, layout, 7)


def test_sizes_and_floats_cost_no_compile(compiles: Callable[[], int]) -> None:
    for name in (
        "standardise",
        "black_scholes",
        "haversine",
        "smoothed",
        "compound",
        "sampled",
        "moving_average",
    ):
        program = PROGRAMS[name]
        fast = jit(program.function)
        make = maker("float64", "dense", 0)
        fast(*program.arguments(make, 8))
        count = compiles()
        for n in (5, 12, 100):
            args = [a + 0.125 if isinstance(a, float) else a for a in program.arguments(make, n)]
            assert_like_numpy(fast(*args), program.function(*args), program.function(*map(wide, args)))
        assert compiles() == count, name


# -- torch's functions, constants, memory --------------------------------------------------------------


def test_functions_of_torch_have_torch_s_meaning_and_give_arrays() -> None:
    def swish(x: Any, scale: float = 1.0) -> Any:
        return x * torch.sigmoid(x * scale)

    def both(x: Any) -> Any:
        return torch.var(x), x.var(), torch.sum(x) / 3, x + torch.arange(3), torch.max(x, 0)[1]

    fast, x = jit(swish), np.array([1.0, -2.0, 4.0])
    np.testing.assert_allclose(fast(x, 2.0), x / (1 + np.exp(-2.0 * x)), rtol=1e-14)
    assert fast(x.astype(np.float32), 2.0).dtype == np.float32
    spread, ours, mean, more, place = jit(both)(x)
    assert type(spread) is np.ndarray and type(ours) is np.float64
    np.testing.assert_allclose([spread, ours, mean], [x.var(ddof=1), x.var(), x.mean()])
    assert more.dtype == np.float64
    assert place == 2


def test_promotion_is_numpy_s() -> None:
    def f(x: Any) -> Any:
        one = np.float64(1)
        return x + 1, x * 1.5, x / 3, x * one, x.sum() * 2, x.mean(), x > 0, x + np.arange(2), -x.max() * 2.5

    for dtype in ("int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64"):
        x = np.array([1, 2]).astype(dtype)
        items = (
            f if dtype != "complex64" else lambda x: (x + 1, x * 1.5, x / 3, x.sum() * 2, x.mean(), abs(x))
        )
        assert_like_numpy(jit(items)(x), items(x))


def test_arrays_of_the_function_s_own_are_written_and_new_at_each_call() -> None:
    def f(x: Any) -> Any:
        table = np.array([1.0, 2.0, 3.0])
        table[0] = x.sum()
        table += 1
        return table, np.arange(3), np.pi, np.float32(2)

    fast = jit(f)
    first, *_ = fast(np.ones(4))
    first[:] = 0
    assert_like_numpy(fast(np.ones(5)), f(np.ones(5)))


def test_a_reversed_view_sees_what_is_written_later() -> None:
    def f(x: Any) -> Any:
        a = x.copy()
        back = a[::-1]
        a[0] = 10.0
        return back * 1, np.flip(a) + 0

    assert_like_numpy(jit(f)(np.arange(4.0)), f(np.arange(4.0)))


def test_numpy_by_other_names() -> None:
    import math

    from numpy import exp, zeros
    from numpy import linalg as la

    def inner(x: Any) -> Any:
        import numpy as other

        return other.ones(len(x)) * exp(x)

    def f(x: Any, s: float) -> Any:
        norm: Callable[..., Any] = la.norm
        return inner(x) + zeros(x.shape), norm(x), exp(s) * x, math.pi * x, isinstance(x, np.ndarray)

    x = np.array([0.5, 1.0])
    assert_like_numpy(jit(f, constants=True)(x, 0.5), f(x, 0.5))


def test_floats_of_python_stay_floats_of_python() -> None:
    def f(x: Any, s: float) -> Any:
        half = s / 2
        return x * half**2, half, np.sqrt(s) * x, isinstance(half, float)

    for dtype in ("float32", "int64"):
        x = np.array([1, 2]).astype(dtype)
        have, want = jit(f)(x, 3.0), f(x, 3.0)
        assert_like_numpy(have, want)
        assert type(have[1]) is float


@pytest.mark.parametrize("size", [3, 0, 1])
def test_calls_of_operators_give_scalars_too(size: int) -> None:
    def f(x: Any) -> Any:
        return torch.sort(x)[0].sum(), x @ x, {"d": np.dot(x, x)}, x

    x = np.arange(float(size))
    total, product, (inner, same) = (lambda a, b, c, d: (a, b, (c["d"], d)))(*jit(f)(x))
    assert_like_numpy((total, product, inner), (x.sum(), x @ x, np.dot(x, x)))
    np.testing.assert_array_equal(same, x)


@pytest.mark.parametrize("threshold", [0.0, 10.0])
def test_masks(threshold: float) -> None:
    def f(x: Any, t: float) -> Any:
        few = x[x > t]
        return few * 2, few.sum(), few.mean(), few.std(), len(few), np.concatenate([few, x])

    x = np.array([1.0, -2.0, 3.0])
    assert_like_numpy(jit(f)(x, threshold), f(x, threshold))
    with pytest.raises(CaptureError, match="a size that depends on data"):
        jit(lambda x: x[x > 0].max())(x)


# -- what is refused -----------------------------------------------------------------------------------


def _loops_over_elements(x: Any) -> Any:
    seen = []
    for value in x:
        seen.append(value)
    return seen[-1]


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "flat": (lambda x: x.flat, "it reads .flat of an array"),
    "unique": (lambda x: np.unique(x), "np.unique has no compiled form .*its size depends on the values"),
    "nonzero": (lambda x: np.where(x > 0), "a size that depends on the values"),
    "random": (lambda x: x + np.random.rand(3), "it reads np.random.rand"),
    "branch": (lambda x: x if x.sum() > 0 else -x, "it decides by the values of an array"),
    "float": (lambda x: float(x.sum()), "float.. of it is a value of the array"),
    "item": (lambda x: x.sum().item(), ".item.. is a value of the array"),
    "elements": (_loops_over_elements, "it loops over the elements of an array"),
    "reversed": (lambda x: x[::-1], "reversed, broadcast or chosen view of an argument"),
    "long double": (lambda x: x.astype(np.longdouble), "an array of .*, which dlc has not"),
    "order": (lambda x: x.reshape((2, -1), order="F"), "order='F' has no compiled form"),
    "keyword": (lambda x: np.exp(x, where=x > 0), "where= without out= leaves elements unset"),
    "method": (lambda x: x.sigmoid(), "no attribute 'sigmoid'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_line(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises((CaptureError, AttributeError), match=message) as raised:
        jit(function)(np.arange(20.0))
    lines = range(function.__code__.co_firstlineno, function.__code__.co_firstlineno + 6)
    assert any(f"test_jit_numpy.py:{line}" in str(raised.value) for line in lines) or name == "reversed"


@pytest.mark.parametrize("dtype", ["longdouble", "U3", "object", "datetime64[s]", "f4,i4"])
def test_dtypes_that_torch_has_not(dtype: str) -> None:
    with pytest.raises(TypeError, match=r"argument 'x' is an array of dtype .*, which dlc does not compile"):
        jit(lambda x: x)(np.zeros(3, dtype))


def test_errors_are_numpy_s() -> None:
    cases: list[tuple[Callable[[Any], Any], type[Exception]]] = [
        (lambda x: x.reshape(7, 3), ValueError),
        (lambda x: x + np.ones(4), ValueError),
        (lambda x: x[20], IndexError),
        (lambda x: x[0, 0], IndexError),
        (lambda x: x.sum(axis=1), ValueError),
        (lambda x: (x > 0) - (x < 0), TypeError),
        (lambda x: np.concatenate([x, np.ones((2, 2))]), ValueError),
        (lambda x: x.astype(np.uint8) + 300, OverflowError),
        (lambda x: x[:0].max(), ValueError),
        (lambda x: x.astype(int) ** -1, ValueError),
    ]
    for function, kind in cases:
        with np.testing.suppress_warnings(), pytest.raises(kind):
            function(np.arange(20.0))
        with pytest.raises(kind):
            jit(function)(np.arange(20.0))


def test_a_compiled_function_that_is_no_global() -> None:
    class Library:
        double = staticmethod(jit(lambda x: np.exp(x) * 2))

    def f(x: Any) -> Any:
        return Library.double(x).sum()

    assert_like_numpy(jit(f)(np.arange(3.0)), (np.exp(np.arange(3.0)) * 2).sum())


def test_a_capture_sees_what_names_stand_for_then() -> None:
    box = [2.0]

    def f(x: Any) -> Any:
        return x * box[0]

    fast = jit(f, constants=True)
    assert fast(np.ones(2)).tolist() == [2.0, 2.0]
    box = [3.0]
    assert fast(np.ones(2, np.float32)).tolist() == [3.0, 3.0]
    assert fast(np.ones(2)).tolist() == [2.0, 2.0]
