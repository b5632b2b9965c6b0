"""dlc.jit: functions as operators, called without Python."""

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dlc import CaptureError
from dlc.report import collect
from tests.backend.jitted import jit, little
from tests.tolerance import assert_like_eager

# -- values --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8],
)
def test_dtypes(dtype: torch.dtype) -> None:
    x, y = (torch.arange(-6, 6).to(dtype) for _ in range(2))
    assert_like_eager(jit(little), little, x, y)


def test_complex_numbers() -> None:
    def f(x: Tensor) -> Tensor:
        return x * 2

    x = torch.randn(3, dtype=torch.complex64)
    assert torch.equal(jit(f)(x), f(x))
    assert torch.equal(jit(f)(torch.zeros(3, dtype=torch.complex64)), torch.zeros(3, dtype=torch.complex64))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (5,), (2, 3), (1, 3), (2, 0, 3), (2, 3, 4, 5)])
def test_ranks_and_sizes_0_and_1(shape: tuple[int, ...]) -> None:
    x, y = torch.randn(2, *shape).unbind()
    assert_like_eager(jit(little), little, x, y)


@pytest.mark.parametrize(
    ("a", "b"),
    [((4,), ()), ((3, 4), (4,)), ((3, 1), (1, 4)), ((1,), (4,)), ((2, 3, 4), (3, 1)), ((0,), (1,))],
)
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    fast = jit(little)
    for shapes in (a, b), (b, a):
        x, y = map(torch.randn, shapes)
        assert_like_eager(fast, little, x, y)


def layouts() -> dict[str, Tensor]:
    base = torch.randn(8, 10)
    return {
        "transposed": torch.randn(6, 5).t(),
        "rows of a wider one": base[:5, :6],
        "every other column": torch.randn(5, 12)[:, ::2],
        "with an offset": torch.randn(40)[7:37].view(5, 6),
        "expanded": torch.randn(5, 1).expand(5, 6),
        "expanded rows": torch.randn(6).expand(5, 6),
        "overlapping": torch.randn(20).as_strided((5, 6), (2, 1)),
    }


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("name", layouts())
def test_strides(name: str) -> None:
    x, y = layouts()[name], torch.randn(5, 6)
    fast = jit(little)
    assert_like_eager(fast, little, y, y)  # a dense variant is there already
    for pair in (x, y), (y, x), (x, x):
        assert_like_eager(fast, little, *pair)
        assert fast(*pair).stride() == little(*pair).stride()


def test_results_have_eager_s_strides() -> None:
    x = torch.randn(4, 5, 6).permute(2, 0, 1)
    assert jit(little)(x, x).stride() == little(x, x).stride()


@pytest.mark.parametrize("scale", [3.0, -0.0, float("nan"), float("inf"), 1e-40])
def test_floats_are_weak_and_cost_no_compile(scale: float, compiles: Callable[[], int]) -> None:
    def f(x: Tensor, s: float) -> Tensor:
        return x * s + 1

    fast = jit(f)
    for dtype in torch.float32, torch.float16:
        x = torch.arange(5).to(dtype)
        fast(x, 2.0)
        count = compiles()
        result = fast(x, scale)
        assert result.dtype == dtype
        torch.testing.assert_close(result, f(x, scale), rtol=0, atol=0, equal_nan=True)
        assert compiles() == count


def test_a_float_promotes_integers() -> None:
    def f(x: Tensor, s: float) -> Tensor:
        return x * s

    assert_like_eager(jit(f), f, torch.arange(5), 1.5)


def test_a_float_that_decides_is_a_constant() -> None:
    def f(x: Tensor, s: float) -> Tensor:
        return x if s > 1 else -x

    fast = jit(f)
    x = torch.randn(3)
    for s in 2.0, 0.5, 3.0, -0.0, 0.0:
        assert torch.equal(fast(x, s), f(x, s))


def test_ints_bools_and_text_are_constants() -> None:
    def f(x: Tensor, n: int, up: bool, mode: str, dims: tuple[int, ...]) -> Tensor:
        y = x * n if up else x - n
        return y.sum(dims) if mode == "sum" else y

    fast = jit(f)
    x = torch.randn(2, 3)
    for rest in (2, True, "sum", (0,)), (3, True, "sum", (1,)), (1, False, "", ()), (True, True, "", (1,)):
        assert_like_eager(fast, f, x, *rest)


def test_true_is_not_one() -> None:
    def f(x: Tensor, n: Any) -> Tensor:
        return x + 1 if n is True else x - 1

    fast, x = jit(f), torch.zeros(2)
    assert torch.equal(fast(x, 1), f(x, 1))
    assert torch.equal(fast(x, True), f(x, True))
    assert torch.equal(fast(x, (1,)), f(x, (1,)))
    assert torch.equal(fast(x, (True,)), f(x, (True,)))


def test_arguments_by_name_and_defaults() -> None:
    def f(x: Tensor, /, y: Tensor, s: float = 2.0, *, k: int = 1) -> Tensor:
        return x * s + y * k

    fast = jit(f)
    x, y = torch.randn(2, 4).unbind()
    assert torch.equal(fast(x, y=y), f(x, y=y))
    assert torch.equal(fast(x, y, 3.0, k=4), f(x, y, 3.0, k=4))
    for args, kwargs in ((x,), {}), ((x, y, 1.0, 2), {}), ((x, y), {"q": 1}), ((x, y), {"y": y}):
        with pytest.raises(TypeError, match=r"f\(\)"):
            fast(*args, **kwargs)


def test_random_numbers_are_eager_s() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    fast, x = jit(f), torch.ones(50)
    torch.manual_seed(0)
    have = [fast(x), fast(x)]
    torch.manual_seed(0)
    assert all(map(torch.equal, have, [f(x), f(x)]))


# -- sizes ---------------------------------------------------------------------------------------------


def test_sizes_cost_no_compile(compiles: Callable[[], int]) -> None:
    fast = jit(little)
    for n in 5, 64, 7, 1000, 12:
        x, y = torch.randn(2, n).unbind()
        assert torch.equal(fast(x, y), little(x, y))
    for shape in (4, 4), (4, 5), (100, 3):
        x, y = torch.randn(2, *shape).unbind()
        assert torch.equal(fast(x, y), little(x, y))
    assert compiles() == 2


def test_a_function_may_ask_for_sizes(compiles: Callable[[], int]) -> None:
    def f(x: Tensor) -> Tensor:
        if x.shape[0] > 10:
            return x * 2
        return x.reshape(-1, 2).sum(1) if x.shape[0] % 2 == 0 else x - 1

    fast = jit(f)
    for n in 4, 6, 8, 11, 12, 100, 5, 7, 9, 10:
        x = torch.randn(n)
        assert_like_eager(fast, f, x)
    few = compiles()
    for n in 20, 30, 7:
        assert_like_eager(fast, f, torch.randn(n))
    assert compiles() == few <= 5


def test_sizes_that_do_not_go_together_raise_eager_s_error() -> None:
    fast = jit(little)
    fast(torch.ones(3), torch.ones(3))
    with pytest.raises(RuntimeError, match="size of tensor a"):
        fast(torch.ones(3), torch.ones(4))
    assert torch.equal(fast(torch.ones(4), torch.ones(4)), torch.full((4,), 3.0))


def test_more_variants_than_are_kept() -> None:
    def f(x: Tensor, n: int) -> Tensor:
        return x * n

    fast, x = jit(f), torch.ones(2)
    for n in [*range(70), 0, 69]:
        assert torch.equal(fast(x, n), x * n)


# -- results -------------------------------------------------------------------------------------------


def test_structures_of_results() -> None:
    def f(x: Tensor) -> Any:
        return {"a": x + 1, "b": [x.sum(), (None, 3, "text", x.shape[0])]}, x

    x = torch.randn(3)
    (d, same), (want, _) = jit(f)(x), f(x)
    assert same is x
    assert torch.equal(d["a"], want["a"])
    assert isinstance(d["b"], list)
    assert d["b"][1] == (None, 3, "text", 3)


def test_no_results() -> None:
    def nothing(x: Tensor) -> None:
        x + 1

    def empty(x: Tensor) -> tuple[()]:
        return ()

    assert jit(nothing)(torch.ones(2)) is None
    assert jit(empty)(torch.ones(2)) == ()


def test_one_in_a_tuple_and_one_twice() -> None:
    def f(x: Tensor) -> tuple[Tensor]:
        return (x * 2,)

    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y, y

    assert isinstance(jit(f)(torch.ones(2)), tuple)
    a, b = jit(twice)(torch.ones(2))
    assert a.data_ptr() == b.data_ptr()


def test_views_of_arguments_and_results() -> None:
    def f(x: Tensor) -> Any:
        y = x + 1
        return x[1:], x.t(), y.t(), y[0]

    big = torch.randn(9, 5)
    x = big[2:6]
    for result, want in zip(jit(f)(x), f(x), strict=True):
        assert torch.equal(result, want)
        assert result.stride() == want.stride()
        assert result.storage_offset() == want.storage_offset()
    part, transposed, y, row = jit(f)(x)
    part[0, 0] = 7
    assert x[1, 0] == 7
    assert transposed.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    y[0, 0] = 9
    assert row[0] == 9


def test_as_strided_of_an_argument_is_refused_and_of_a_value_compiled() -> None:
    def f(x: Tensor) -> Tensor:
        return x.as_strided((2, 2), (1, 2))

    def g(x: Tensor) -> Tensor:
        return (x + 1).as_strided((2, 2), (1, 2), 1)

    x = torch.randn(9)[4:]
    with pytest.raises(CaptureError, match="the storage of an argument"):
        jit(f)(x)
    assert torch.equal(jit(g)(x), g(x))


def test_a_view_shares_the_counter_of_versions() -> None:
    def f(x: Tensor) -> Tensor:
        return x.t()

    x = torch.randn(2, 3)
    before = x._version
    jit(f)(x).add_(1)
    assert x._version > before


def test_writes_inside() -> None:
    def inside(x: Tensor) -> Tensor:
        y = x * 2
        y += 1
        y[0] = 5
        return y

    x = torch.randn(4)
    assert torch.equal(jit(inside)(x), inside(x))


def test_sizes_that_depend_on_data() -> None:
    def f(x: Tensor) -> Tensor:
        return x[x > 0] * 2

    compiled = jit(f)
    for x in (torch.randn(5), torch.randn(5), -torch.ones(5), torch.ones(7)):
        torch.testing.assert_close(compiled(x), f(x))
    array = np.array([1.0, -2.0, 3.0], np.float32)
    assert np.array_equal(compiled(array), [2.0, 6.0])


def test_what_is_compared_is_a_bool_and_what_is_unknown_is_refused() -> None:
    class Box:
        def __init__(self, x: Tensor) -> None:
            self.x = x

    def bools(x: Tensor) -> Any:
        return x + 1, x.shape[0] > 3

    def boxed(x: Tensor) -> Any:
        return Box(x + 1)

    fast = jit(bools)
    assert [fast(torch.ones(n))[1] for n in (2, 5, 3, 4)] == [False, True, False, True]
    with pytest.raises(CaptureError, match=r"boxed\(\).*returns an object of type Box"):
        jit(boxed)(torch.ones(2))


# -- NumPy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "uint8", "bool"])
def test_arrays(dtype: str) -> None:
    x = np.arange(12).reshape(3, 4).astype(dtype)

    def f(x: Any) -> Any:
        return x + x, x * 2.0, x.max()

    for result, want in zip(jit(f)(x), f(x), strict=True):
        assert type(result) is type(want)
        np.testing.assert_array_equal(result, want)
        assert result.dtype == want.dtype


def test_arrays_of_all_layouts() -> None:
    fast = jit(little)
    base = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    swapped = base.astype(">f4")
    fixed = base.copy()
    fixed.flags.writeable = False
    record = np.zeros((6, 8), [("a", "f4"), ("b", "u1")])
    record["a"] = base
    for x in base, base[::2], base[:, ::-1], base.T, swapped, fixed, record["a"], base[:0], base[:, :1]:
        result = fast(x, x)
        np.testing.assert_array_equal(result, np.maximum(x.astype("f4") * 2 + x, 0))
        assert result.flags.writeable


def test_a_view_of_an_array() -> None:
    def f(x: Any) -> Any:
        return x.T, x[1:]

    x = np.arange(6.0).reshape(2, 3)
    transposed, part = jit(f)(x)
    assert np.shares_memory(transposed, x)
    part[0, 0] = 50
    assert x[1, 0] == 50
    assert transposed[0, 1] == 50


def test_arrays_where_operators_are_called() -> None:
    def f(x: Any) -> Any:
        return torch.sort(x, 0)[0] * 2

    x = np.random.default_rng(0).standard_normal(9)
    np.testing.assert_array_equal(jit(f)(x), np.sort(x) * 2)


def test_results_outlive_their_arrays() -> None:
    def f(x: Any) -> Any:
        return x[1:]

    part = jit(f)(np.arange(1000.0))
    gc.collect()
    np.testing.assert_array_equal(part, np.arange(1.0, 1000.0))


# -- gradients -----------------------------------------------------------------------------------------


def test_gradients() -> None:
    fast = jit(little)
    x, w = torch.randn(4), torch.randn(4, requires_grad=True)
    fast(x, x)
    result = fast(x, w)
    result.sum().backward()
    have, w.grad = w.grad, None
    little(x, w).sum().backward()
    assert torch.equal(have, w.grad)
    with torch.no_grad():
        assert not fast(x, w).requires_grad
    assert not fast(x, w.detach()).requires_grad
    assert fast(x, w).requires_grad


def test_options_hold_where_a_gradient_is_needed() -> None:
    def chain(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(4):
            x = torch.softmax(x * y, -1)
        return x

    saved = []
    for budget in (1.0, 0.0):
        x, y = torch.randn(2, 16, 16, requires_grad=True).unbind()
        with collect() as reports:
            jit(chain, memory_budget=budget)(x, y)
        saved += [report["partition"]["bytes"] for report in reports if report["kind"] == "forward"]
    all_, least = saved
    assert least < all_
