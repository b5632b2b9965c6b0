"""Operators that are programs of others in a file: sorting, what comes of it, and Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

import dlc
from dlc.files.alone import COUNTED, _factors

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int32, torch.int64, torch.bool)
SIZES = (0, 1, 2, 5, COUNTED, COUNTED + 1, 300)


def elements(dtype: torch.dtype, *shape: int) -> Tensor:
    """Few different ones, so that some are equal; NaN, infinities and zeros of both signs among them."""
    g = torch.Generator().manual_seed(sum(shape))
    x = torch.randint(-4, 5, shape, generator=g).to(dtype)
    if dtype.is_floating_point:
        for value in (torch.nan, -0.0, torch.inf, -torch.inf, 0.5):
            x = torch.where(torch.rand(shape, generator=g) < 0.1, torch.tensor(value, dtype=dtype), x)
    return x


def loaded(fn: Callable[..., Any], path: Path, *args: Tensor, dynamic: Any = None) -> Any:
    dlc.save(fn, path, args, dynamic_shapes=dynamic, check=False)
    return dlc.load(path, tier="tcc")


def same(have: Any, want: Any) -> None:
    for a, b in zip(have, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
        assert a.dtype == b.dtype and a.shape == b.shape


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sort(dtype: torch.dtype, n: int, tmp_path: Path) -> None:
    """Values and places of both orders, along the last axis and the first."""

    def sorts(x: Tensor, y: Tensor) -> list[Tensor]:
        up, down = (
            torch.sort(x, dim=-1, stable=True),
            torch.sort(y, dim=0, descending=True, stable=True),
        )
        return [*up, *down]

    x, y = elements(dtype, 3, n), elements(dtype, n, 2)
    m = loaded(sorts, tmp_path / "m.dlc", x, y)
    same(m(x, y), sorts(x, y))
    wide = elements(dtype, 3, 2 * n)[:, ::2]  # of other strides
    same(m(wide, wide.T.contiguous()[:, :2].flip(1)), sorts(wide, wide.T[:, :2].flip(1)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_sort_of_a_size_that_changes(dtype: torch.dtype, tmp_path: Path) -> None:
    def sorts(x: Tensor) -> list[Tensor]:
        return [*torch.sort(x, dim=-1, stable=True), x.topk(2, -1, largest=False)[0]]

    m = loaded(sorts, tmp_path / "m.dlc", elements(dtype, 4, 9),
               dynamic=({0: Dim("B"), 1: Dim("N", min=2)},))  # fmt: skip
    for shape in ((4, 9), (2, 2), (3, COUNTED + 70)):
        x = elements(dtype, *shape)
        same(m(x), sorts(x))


#: The values; of equal ones torch does not say which it takes.  k is in the middle.
OF_THE_ORDER: dict[str, Callable[[Tensor, int], Tensor]] = {
    "median": lambda x, k: torch.median(x, 1).values,
    "median of all": lambda x, k: torch.median(x),
    "median keepdim": lambda x, k: torch.median(x, 1, keepdim=True).values,
    "nanmedian": lambda x, k: torch.nanmedian(x, 1).values,
    "nanmedian of all": lambda x, k: torch.nanmedian(x),
    "kthvalue": lambda x, k: torch.kthvalue(x, k, 1).values,
    "kthvalue keepdim": lambda x, k: torch.kthvalue(x, k, 0, keepdim=True).values,
    "topk": lambda x, k: torch.topk(x, k, 1).values,
    "topk smallest": lambda x, k: torch.topk(x, k, 1, largest=False).values,
    "msort": lambda x, k: torch.msort(x),
}


@pytest.mark.in_turn(9)
@pytest.mark.parametrize("n", [1, 6, COUNTED + 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
@pytest.mark.parametrize("name", OF_THE_ORDER)
def test_of_the_order(name: str, dtype: torch.dtype, n: int, tmp_path: Path) -> None:
    x, k = elements(dtype, max(n, 5), n), (n + 1) // 2

    def made(x: Tensor) -> list[Tensor]:
        return [OF_THE_ORDER[name](x, k)]

    same(loaded(made, tmp_path / "m.dlc", x)(x), made(x))


def test_places_are_those_of_the_values(tmp_path: Path) -> None:
    def made(x: Tensor) -> list[Tensor]:
        return [*torch.topk(x, 3, 0), *torch.kthvalue(x, 2, 0, True), *torch.median(x, 0, True)]

    x = elements(torch.float32, 20, 6)
    found = loaded(made, tmp_path / "m.dlc", x)(x)
    for values, at in zip(found[::2], found[1::2], strict=True):
        same([x.gather(0, at)], [values])
        assert at.dtype == torch.int64


@pytest.mark.parametrize("name", ["sort", "median", "topk"])
def test_of_a_scalar(name: str, tmp_path: Path) -> None:
    def made(x: Tensor) -> list[Tensor]:
        return [*{"sort": torch.sort, "median": torch.median, "topk": torch.topk}[name](x, *at)]

    x, at = torch.tensor(3.0), {"sort": (), "median": (0,), "topk": (1,)}[name]
    same(loaded(made, tmp_path / "m.dlc", x)(x), made(x))


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 17, 30, 97, 128, 360])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_fourier(dtype: torch.dtype, n: int, tmp_path: Path) -> None:
    def made(x: Tensor, z: Tensor) -> list[Tensor]:
        return (
            [
                torch.fft.rfft(x),
                torch.fft.fft(x, norm="ortho"),
                torch.fft.fft(z),
                torch.fft.ifft(z),
                torch.fft.fft2(z, norm="forward"),
                torch.fft.irfft(z, n),
                torch.fft.hfft(z, n, norm="ortho"),
                torch.fft.irfft2(z),
            ]
            if n > 1
            else [torch.fft.rfft(x), torch.fft.ifft(z), torch.fft.irfft(z, 1)]
        )

    g = torch.Generator().manual_seed(n)
    x = torch.randn(2, 3, n, generator=g, dtype=dtype)
    z = torch.complex(x, torch.randn(2, 3, n, generator=g, dtype=dtype))
    want = made(x, z)
    for a, b in zip(loaded(made, tmp_path / "m.dlc", x, z)(x, z), want, strict=True):
        bound = (1e-6 if dtype == torch.float32 else 1e-14) * n * b.abs().max().item()
        torch.testing.assert_close(a, b, rtol=0, atol=bound)


@pytest.mark.parametrize(
    ("n", "factors"), [(1, []), (16, [16]), (60, [12, 5]), (1024, [16, 16, 4]), (97, [97])]
)
def test_factors(n: int, factors: list[int]) -> None:
    assert _factors(n) == factors


def test_a_large_prime_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(dlc.FileError, match=r"_fft_r2c.*\n?.*"):
        dlc.save(lambda x: torch.fft.rfft(x), tmp_path / "m.dlc", (torch.ones(1031),))


def test_equal_results(tmp_path: Path) -> None:
    """Values that are computed twice, and one that is returned twice, are arrays of their own."""

    def made(x: Tensor) -> list[Tensor]:
        y = x * x
        return [x * 3 + 1, y, x * 3 + 1, y, torch.zeros(2), torch.zeros(2)]

    x = torch.randn(3, 4)
    found = loaded(made, tmp_path / "m.dlc", x)(x)
    same(found, made(x))
    for k in range(3):
        found[k].fill_(7)
    same(found[3:], made(x)[3:])


def test_empty_arrays_have_a_place_for_each_element(tmp_path: Path) -> None:
    """Strides that put two elements in one place were promised, and V28 ended dlc.save."""

    def made(x: Tensor) -> list[Tensor]:
        shapes = [((5, 5), (2, 1)), ((3, 2, 2), (1, 2, 3)), ((2, 3), (8, 2)), ((0, 4), (0, 1)), ((), ())]
        return [torch.empty_strided(*shape) for shape in shapes] + [x.new_empty_strided((4, 3), (0, 1))]

    x = torch.randn(3, 4)
    for have, want in zip(loaded(made, tmp_path / "m.dlc", x)(x), made(x), strict=True):
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
