"""Special functions: compiled whole, as near as eager, with its infinities and NaN, in both tiers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.capture.whole import FLOATS, check_whole, spread

pytestmark = pytest.mark.in_turn(2)


def numbers() -> Tensor:
    """Both sides of every place where a formula ends, the poles of gamma, and each special number."""
    g = torch.Generator().manual_seed(1)
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 10.0, torch.inf, -torch.inf, torch.nan, 60.0, -60.0, 104.0]
    edges = torch.tensor([*special, 1e-20, 5.0, 8.0, 2.09, -2.09, 0.5, 1e-5, 26.0, -26.8, 103.0])
    x = torch.cat([torch.randn(97, generator=g) * 3, torch.linspace(-12, 12, 161), edges])
    return torch.cat([x, torch.rand(43, generator=g)])


X = numbers()
NAMES = """
    i0 i0e i1 i1e modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1
    scaled_modified_bessel_k0 scaled_modified_bessel_k1 bessel_j0 bessel_j1 bessel_y0 bessel_y1
    spherical_bessel_j0 airy_ai ndtri digamma erfcx log_ndtr
"""
HALVES = "i0 i0e i1 i1e digamma"  # of the others eager has none in f16 and bf16

FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "polygamma": lambda x: [torch.polygamma(k, x) for k in range(6)],
    "angle": torch.angle,
    "to the power of 1.5": lambda x: x**1.5,
    "rounded to decimals": lambda x: [torch.round(x * 100, decimals=d) for d in (-3, -1, 0, 2, 3)],
} | {name: getattr(torch.special, name) for name in NAMES.split()}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special(name: str) -> None:
    for dtype in (torch.float32, torch.float64):
        check_whole(FUNCTIONS[name], X.to(dtype))


@pytest.mark.parametrize("name", [*HALVES.split(), "polygamma", "angle", "rounded to decimals"])
def test_special_of_halves(name: str) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        check_whole(FUNCTIONS[name], X.to(dtype))


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("name", ["i1", "bessel_y1", "airy_ai", "digamma", "polygamma", "log_ndtr"])
def test_special_by_the_c_compiler(name: str) -> None:
    check_whole(FUNCTIONS[name], spread(X.view(3, -1)), tier="gcc", dynamic=True)


def test_special_of_integers() -> None:
    """Eager computes in float32, and so does the exact run: what is held to it is within some ulps."""
    whole = torch.arange(-5, 20)
    for name, function in FUNCTIONS.items():
        if name != "rounded to decimals":
            mine = torch.compile(function, backend="dlc", options={"strict": True, "tier": "tcc"})(whole)
            torch.testing.assert_close(mine, function(whole), equal_nan=True, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(0,), (1,), (), (3, 0)])
def test_special_of_few(shape: tuple[int, ...]) -> None:
    def function(x: Tensor) -> list[Tensor]:
        return [torch.special.i0(x), torch.digamma(x), torch.polygamma(2, x), torch.special.ndtri(x)]

    check_whole(function, torch.full(shape, 1.25))


def test_a_high_derivative_is_a_call(compiler: Any) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.polygamma(40, x)

    x = torch.tensor([20.0, 30.0], dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(compiler(function)(x), function(x))


@pytest.mark.parametrize("number", [2.5, torch.inf, -torch.inf, torch.nan])
def test_axis_of_a_scalar(number: float) -> None:
    def function(x: Tensor) -> list[Any]:
        return [*(x - 1).min(0), (x + 1).max(-1).values, x.softmax(0), x.log_softmax(-1)]

    check_whole(function, torch.tensor(number), exact=True, capture="aot")
    check_whole(lambda x: torch.ops.aten._safe_softmax(x, 0), torch.tensor(number), capture="aot")


@pytest.mark.parametrize("dtype", FLOATS)
def test_fraction_and_power_of_two(dtype: torch.dtype) -> None:
    """From the least subnormal to the largest number, exactly."""
    limits = torch.finfo(dtype)
    edges = torch.tensor(
        [limits.max, limits.tiny, limits.smallest_normal * limits.eps, limits.eps, 0.0, -0.0]
    )
    powers = torch.ldexp(torch.ones(300, dtype=torch.float64), torch.arange(-150, 150))
    x = torch.cat([X.double(), edges.double(), -edges.double(), powers, 3 - powers]).to(dtype)
    if dtype == torch.float64:
        x = torch.cat([x, torch.tensor([limits.max, limits.tiny, 5e-324, -7e-310], dtype=dtype)])
    for tier in ("tcc", "gcc"):
        check_whole(lambda x: torch.frexp(x), x, exact=True, tier=tier)
        check_whole(lambda x: torch.frexp(x * 1), spread(x[:192].view(12, 16)), exact=True, dynamic=True)
