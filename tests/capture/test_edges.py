"""Where integers end: shifts by any count, quotients of any signs, powers, wrapping, numbers that do not fit.

Equal to eager. But for the smallest integer by -1, of which some of eager's operators end the process.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.capture.whole import check_whole
from tests.tolerance import assert_same_bits

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
Results = dict[str, Tensor]


def values(dtype: torch.dtype) -> Tensor:
    i = torch.iinfo(dtype)
    few = [i.min, i.min + 1, i.max - 1, i.max, 0, 1, 5, *((-1, -2, -7) if i.min else (2, 7, 100))]
    return torch.tensor(few, dtype=dtype)


def pairs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Each value with each, except that nothing is divided by zero, and the smallest not by -1."""
    v = values(dtype)
    a, b = v.repeat(len(v)), v.repeat_interleave(len(v))
    return a, torch.where((b == 0) | ((a == v.min()) & (b == v.max() + v.min())), 3, b)


def counts(dtype: torch.dtype) -> Tensor:
    """Of a shift: all kinds of them."""
    i = torch.iinfo(dtype)
    few = [0, 1, i.bits - 1, i.bits, i.bits + 1, 100, i.max, *((-1, i.min) if i.min else (254, 33)), 2]
    return torch.tensor(few, dtype=dtype)


def shifts(a: Tensor, b: Tensor) -> Results:
    found = {"left": a << b, "right": a >> b}
    for c in (0, 1, 7, 8, 31, 32, 63, 64, 100):
        found |= {f"left {c}": a << c, f"right {c}": a >> c}
    return found


def quotients(a: Tensor, b: Tensor) -> Results:
    found = {}
    for name, by in (("tensor", b), ("3", 3), ("7", 7), ("1", 1)):
        found[f"floor {name}"] = a // by
        found[f"remainder {name}"] = a % by
        found[f"fmod {name}"] = torch.fmod(a, by)
        found[f"trunc {name}"] = torch.div(a, by, rounding_mode="trunc")
        found[f"div {name}"] = a / by
    return found


def test_smallest_by_minus_one(compiler: Callable[..., Any]) -> None:
    """A constant divisor is compiled, and wraps."""
    a = torch.full((20,), torch.iinfo(torch.int64).min)
    for mode, want in (("trunc", a), ("floor", a)):
        torch._dynamo.reset()
        assert_same_bits(compiler(lambda a, m=mode: torch.div(a, -1, rounding_mode=m))(a), want)
    torch._dynamo.reset()
    assert_same_bits(compiler(lambda a: a % -1)(a), a - a)


def negative_quotients(a: Tensor, b: Tensor) -> Results:
    found = {}
    for by in (-3, -7):
        found[f"floor {by}"] = a // by
        found[f"remainder {by}"] = a % by
        found[f"fmod {by}"] = torch.fmod(a, by)
        found[f"trunc {by}"] = torch.div(a, by, rounding_mode="trunc")
    return found


def wrapping(a: Tensor, b: Tensor) -> Results:
    found = {"add": a + b, "sub": a - b, "mul": a * b, "neg": -a, "abs": a.abs(), "sign": a.sign()}
    found |= {"alpha": torch.add(a, b, alpha=100), "add 300": a + 300, "mul 300": a * 300, "not": ~a}
    found |= {f"power {e}": a**e for e in (0, 1, 2, 3, 5, 64)}
    found |= {"sum": a.sum(), "product": a.prod(), "running": a.cumsum(0), "square": a.square()}
    return found


def comparisons(a: Tensor, b: Tensor) -> Results:
    found = {"max": torch.maximum(a, b), "min": torch.minimum(a, b), "clamp": a.clamp(1, 100)}
    for c in (0, 100, 0.5, 2.5e9):
        found |= {f"< {c}": a < c, f"== {c}": a == c, f">= {c}": a >= c}
    return found


def casts(a: Tensor, b: Tensor) -> Results:
    return {f"to {dtype}": a.to(dtype) for dtype in [*DTYPES, *FLOATS, torch.bool]}


def assert_like_eager(function: Callable[..., Results], compiler: Any, *args: Tensor) -> None:
    theirs = function(*args)
    for tier in ("tcc", "gcc"):
        torch._dynamo.reset()
        mine = compiler(function, options={"tier": tier})(*args)
        for name in theirs:
            assert_same_bits(mine[name], theirs[name], f"{name} ({tier})")


GROUPS = [shifts, quotients, wrapping, comparisons, casts]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("function", GROUPS, ids=lambda f: f.__name__)
def test_integers(function: Any, dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    a, b = pairs(dtype)
    assert_like_eager(function, compiler, a, counts(dtype).repeat(10) if function is shifts else b)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_negative_divisors(dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    assert_like_eager(negative_quotients, compiler, *pairs(dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_that_no_integer_holds(dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    """NaN, infinities and numbers out of range become the integers that they become in eager's vectors."""
    few = [torch.nan, torch.inf, -torch.inf, 1e20, -1e20, 300, -300, 255.5, 1.5, -1.5, 2.0**31, 2.0**63]
    x = torch.tensor(few * 16, dtype=torch.float64).to(dtype)
    assert_like_eager(
        lambda x: {str(t): x.to(t) for t in (torch.int32, torch.int64, torch.bool)}, compiler, x
    )


RAISE: dict[str, Callable[[Tensor], Tensor]] = {
    "//": lambda a: a // (a - a),
    "//=": lambda a: (a + 1).floor_divide_(a - a),
    "%": lambda a: a % 0,
    "fmod": lambda a: torch.fmod(a, a - a),
    "trunc": lambda a: torch.div(a, 0, rounding_mode="trunc"),
    "power": lambda a: a**-1,
    "reciprocal of a power": lambda a: torch.pow(a, -2),
}


@pytest.mark.parametrize("name", RAISE)
def test_no_result(name: str, compiler: Callable[..., Any]) -> None:
    a = torch.arange(1, 5)
    with pytest.raises(RuntimeError) as eager:
        RAISE[name](a)
    with pytest.raises(RuntimeError) as mine:
        compiler(RAISE[name])(a)
    assert str(eager.value).split("\n")[0] in str(mine.value)


def test_constants_of_few_numbers() -> None:
    """They are in the program: nothing is looked up when it runs."""

    def function(x: Tensor) -> list[Tensor]:
        scale = torch.tensor([[0.5, -0.0, torch.nan, 3.0]])
        return [
            x * scale,
            x[torch.tensor([2, 0, 1])],
            x.int() + torch.tensor([1, 2, 3, -4], dtype=torch.int32),
        ]

    check_whole(function, torch.arange(12.0).view(3, 4), exact=True, capture="aot")


def test_a_constant_of_many_numbers(compiler: Callable[..., Any]) -> None:
    table = list(range(100))

    def function(x: Tensor) -> Tensor:
        return x + torch.tensor(table)

    x = torch.arange(100)
    assert torch.equal(compiler(function)(x), x * 2)


def test_softmax_and_lookup_of_nothing() -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [x.softmax(-1), x.log_softmax(0).sum(), torch.zeros_like(torch.empty_permuted((2, 3), (1, 0)))]

    check_whole(function, torch.empty(3, 0), capture="aot")
    scalar = torch.tensor(0)
    check_whole(lambda x, i: x.gather(0, i) + 1, torch.tensor(2.5), scalar, exact=True, capture="aot")
