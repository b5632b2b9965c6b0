"""Elementary functions of complex numbers: every part as near as eager's, special values and cuts where it
has them."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.capture.test_complex import crossed, numbers, parts, run
from tests.tolerance import assert_elements, assert_same_bits

pytestmark = pytest.mark.in_turn(2)

Function = Callable[[Tensor], Tensor]

NAMES = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh
    acosh atanh sigmoid sinc""".split()  # noqa: SIM905
FUNCTIONS: dict[str, Function] = {name: getattr(torch, name) for name in NAMES} | {
    "silu": torch.nn.functional.silu,
    "to 2.5": lambda z: z**2.5,
    "to 4": lambda z: z**4,
    "to -1": lambda z: z**-1,
    "to 1 - 2j": lambda z: z ** (1 - 2j),
    "to itself": lambda z: z**z,
    "2 to it": lambda z: 2**z,
    "1j to it": lambda z: torch.pow(1j, z),
    "to its parts": lambda z: z**z.real,
}
# Where eager's formula overflows or loses the sign of a zero between its steps, C's special values do not.
LOOSE = set("exp2 expm1 log1p rsqrt acos sigmoid silu sinc".split())  # noqa: SIM905
STRICT = [name for name in FUNCTIONS if name not in LOOSE and " " not in name]


def spread(dtype: torch.dtype) -> Tensor:
    """About 1 and 10, near 0, on the unit circle, of any size, and beside 1."""
    z, w = numbers(999, dtype=torch.complex128), numbers(999, dtype=torch.complex128, seed=2)
    far = torch.complex(z.real * (20 * w.real).exp2(), z.imag * (20 * w.imag).exp2())
    return torch.cat([z, 8 * z, z * 1e-3, z / z.abs(), far, 1 + z * 1e-4]).to(dtype)


def all_of(names: Iterable[str]) -> Callable[[Tensor], list[Tensor]]:
    functions = [FUNCTIONS[name] for name in names]
    return lambda z: [function(z) for function in functions]


@cache
def made(dtype: torch.dtype) -> dict[str, tuple[Tensor, Tensor]]:
    """What each function makes of numbers, and of special ones; all in one graph."""
    ordinary, special = (run(all_of(FUNCTIONS), z, tier="tcc") for z in (spread(dtype), crossed(dtype)))
    return dict(zip(FUNCTIONS, zip(ordinary, special, strict=True), strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str) -> None:
    function, z = FUNCTIONS[name], spread(torch.complex64)
    mine, theirs, exact = made(z.dtype)[name][0], function(z), function(z.to(torch.complex128))
    known = theirs.isfinite() & exact.abs().lt(1e38)
    assert not ((exact.abs() < 1e38) & ~mine.isfinite()).any()
    for k, t in parts(theirs[known]).items():
        assert_elements(parts(mine[known])[k], t, parts(exact[known])[k], k)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("name", STRICT)
def test_special_numbers(name: str, dtype: torch.dtype) -> None:
    """Infinities, NaN and the signs of zeros, on both sides of each cut."""
    mine, theirs = made(dtype)[name][1], FUNCTIONS[name](crossed(dtype))
    known = ~theirs.isnan()  # beside a NaN the sign of a zero is open
    for k, t in parts(theirs).items():
        torch.testing.assert_close(parts(mine)[k], t, equal_nan=True)
        assert torch.equal(parts(mine)[k][known].signbit(), t[known].signbit())


def test_logaddexp() -> None:
    z = spread(torch.complex64)
    w = z[torch.randperm(z.numel(), generator=torch.Generator().manual_seed(4))]
    mine = run(torch.logaddexp, z, w, tier="tcc")[0]
    theirs, exact = torch.logaddexp(z, w), torch.logaddexp(z.to(torch.complex128), w.to(torch.complex128))
    known = theirs.isfinite() & exact.abs().lt(1e38)
    for k, t in parts(theirs[known]).items():
        assert_elements(parts(mine[known])[k], t, parts(exact[known])[k], k)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_logaddexp_of_special_numbers(dtype: torch.dtype) -> None:
    z, w = (t.reshape(-1) for t in torch.meshgrid(crossed(dtype), crossed(dtype), indexing="ij"))
    mine, theirs = run(torch.logaddexp, z, w, tier="tcc")[0], torch.logaddexp(z, w)
    for k, t in parts(theirs).items():
        torch.testing.assert_close(parts(mine)[k], t, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_overflow_of_a_factor_alone(dtype: torch.dtype) -> None:
    """e**x is too large, and e**x times the sine of a small angle is not."""

    def function(z: Tensor) -> list[Tensor]:
        return [getattr(torch, name)(z) for name in ("exp", "sin", "cos", "sinh", "cosh")]

    far, small = (90.0, 1e-20) if dtype == torch.complex64 else (712.0, 1e-200)
    z = torch.tensor([complex(far, small), complex(small, -far), complex(-far, small), complex(small, far)])
    for mine, theirs in zip(run(function, z.to(dtype), tier="tcc"), function(z.to(dtype)), strict=True):
        torch.testing.assert_close(*(torch.view_as_real(t) for t in (mine, theirs)), rtol=1e-5, atol=0)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        (["exp", "log", "to its parts"], torch.complex64),
        (["sinh", "acos"], torch.complex64),
        (["cos", "sqrt", "atan"], torch.complex128),
    ],
)
def test_two_tiers_agree(names: list[str], dtype: torch.dtype) -> None:
    function = all_of(names)
    z = torch.cat([spread(dtype), crossed(dtype)])
    for one, other in zip(*(run(function, z, tier=tier) for tier in ("tcc", "gcc")), strict=True):
        for key, t in parts(one).items():
            assert_same_bits(t.contiguous(), parts(other)[key].contiguous(), key)


def test_gradients(compiler: Callable[..., Any]) -> None:
    function = all_of(["exp", "log", "sqrt", "tanh", "sigmoid", "asin", "acosh", "to 2.5", "to itself"])
    z, found = numbers(5, 7, dtype=torch.complex128), []
    for call in (compiler(function, fullgraph=True, options={"tier": "tcc"}), function):
        leaf = z.clone().requires_grad_()
        results = call(leaf)
        weights = [numbers(5, 7, dtype=z.dtype, seed=k) for k in range(len(results))]
        found.append(torch.autograd.grad(results, leaf, weights))
    torch.testing.assert_close(*found)
