"""Elements by their place in memory, windows of volumes, and operators of few special arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves

import dlc


def compare(fn: Callable[..., Any], path: Path, *args: Tensor) -> None:
    dlc.save(fn, path, args, check=False)
    have, want = tree_leaves(dlc.load(path, tier="tcc")(*args)), tree_leaves(fn(*args))
    assert len(have) == len(want)
    for a, b in zip(have, want, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)
        assert a.dtype == b.dtype and a.shape == b.shape


def elements(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Some of them zero, NaN and negative infinity, if there are such."""
    g = torch.Generator().manual_seed(sum(shape))
    x = torch.randint(-3, 4, shape, generator=g).to(dtype)
    if dtype.is_floating_point:
        x = torch.where(torch.rand(shape, generator=g) < 0.1, torch.tensor(-torch.inf, dtype=dtype), x)
        x = torch.where(torch.rand(shape, generator=g) < 0.05, torch.tensor(torch.nan, dtype=dtype), x)
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((2, 3), (1, 4), 0), ((3, 3), (0, 2), 5), ((), (), 7), ((0, 4), (9, 9), 0), ((1,), (100,), 23)],
)
def test_as_strided(size: Any, stride: Any, offset: int, dtype: torch.dtype, tmp_path: Path) -> None:
    def made(x: Tensor) -> list[Tensor]:
        view = torch.as_strided(x, size, stride, offset)
        return [view + 1, torch.as_strided_copy(x, size, stride, offset)]

    compare(made, tmp_path / "m.dlc", elements(4, 6, dtype=dtype))


def test_a_view_of_a_view(tmp_path: Path) -> None:
    def made(x: Tensor) -> list[Tensor]:
        view = x.as_strided((3, 4), (1, 1), 1)
        return [view.as_strided((2, 3), (6, 1), 2) + 1, view.as_strided((2,), (9,)) * 2]

    compare(made, tmp_path / "m.dlc", elements(4, 6))


def test_as_strided_scatter(tmp_path: Path) -> None:
    def made(x: Tensor, part: Tensor) -> Tensor:
        return torch.as_strided_scatter(x, part, (2, 3), (8, 2), 1)

    compare(made, tmp_path / "m.dlc", elements(4, 6), elements(2, 3))


def test_memory_that_is_not_known_is_refused(tmp_path: Path) -> None:
    """Of a value that is a part of another one, and of places behind its end."""
    x = torch.ones(4, 6)
    for fn in (
        lambda x: (x * 2)[1:].as_strided((2, 2), (1, 1)),
        lambda x: (x * 2).mT.as_strided((2, 2), (1, 1)),
    ):
        with pytest.raises((dlc.FileError, dlc.CaptureError), match="as_strided"):
            dlc.save(fn, tmp_path / "m.dlc", (x,))


@pytest.mark.parametrize(
    "fn, x",
    [
        (lambda x: x.as_strided((2, 3), (1, 4)) + 0, torch.arange(24.0).reshape(4, 6).mT),
        (lambda x: x.as_strided((2, 3), (1, 4)) + 0, torch.arange(24.0).reshape(4, 6)[:, 1:]),
        (lambda x: x.as_strided((2, 3), (1, 4)) + 0, torch.arange(24.0).reshape(4, 6)[1:]),
        (lambda x: x.unsqueeze(0).as_strided((2, 3), (1, 4)) + 0, torch.arange(24.0).reshape(4, 6).mT),
        (lambda x: torch.as_strided_copy(x, (2, 3), (1, 4)), torch.arange(24.0).reshape(4, 6).mT),
        (lambda x: x.as_strided((3, 4), (1, 1))[None].as_strided((2, 3), (6, 1)) + 1, torch.ones(4, 6)),
        (lambda x: torch.relu(x).as_strided((2, 3), (1, 4)) + 0, torch.arange(24.0).reshape(4, 6).mT),
        (lambda x: torch.view_as_complex(x[1:]).as_strided((2,), (1,), 0) * 2, torch.ones(6, 2, 2)),
        (lambda x: torch.view_as_complex(x[1:]).view(-1).as_strided((2,), (1,), 0) * 2, torch.ones(6, 2, 2)),
    ],
)  # fmt: skip
def test_places_of_other_memory_are_refused_by_line(
    fn: Callable[[Tensor], Tensor], x: Tensor, tmp_path: Path
) -> None:
    """In eager these read elements that are not those of the tensor's rows: it was saved with others."""
    with pytest.raises(dlc.FileError, match=r"as_strided.*test_strided\.py:\d+"):
        dlc.save(fn, tmp_path / "m.dlc", (x,))
    assert not list(tmp_path.iterdir())


def test_places_of_what_is_computed_in_rows(tmp_path: Path) -> None:
    """Whatever the argument's own order of memory is."""
    x = torch.randn(6, 4).mT

    def copied(x: Tensor) -> Tensor:
        return torch.relu(x).clone(memory_format=torch.contiguous_format).as_strided((2, 3), (1, 4)) + 0

    compare(copied, tmp_path / "m.dlc", x)
    compare(lambda x: torch.relu(x).as_strided((2, 3), (1, 4)) + 0, tmp_path / "n.dlc", torch.randn(6, 4)[2:])


def test_places_of_a_weight_that_is_transposed(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def __init__(self, weight: Tensor) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(weight)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.weight.as_strided((2, 3), (1, 4))

    weight, x = torch.arange(24.0).reshape(4, 6), torch.ones(2, 3)
    compare(Model(weight).eval(), tmp_path / "m.dlc", x)
    with pytest.raises(dlc.FileError, match=r"as_strided.*test_strided\.py:\d+"):
        dlc.save(Model(weight.mT).eval(), tmp_path / "n.dlc", (x,))


def test_places_of_complex_pairs(tmp_path: Path) -> None:
    def made(x: Tensor) -> Tensor:
        return torch.view_as_complex(x).as_strided((3,), (2,), 1) * torch.view_as_complex(x * 2)[0, 0]

    compare(made, tmp_path / "m.dlc", torch.arange(24.0).reshape(6, 2, 2))


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, at: x[0].index_select(0, at),
        lambda x, at: x[0].take(at),
        lambda x, at: x[:1].index_select(0, at[0]),
        lambda x, at: x[:1].gather(0, at),
        lambda x, at: x[:1].index_select(0, at) * 2,
        lambda x, at: x[0].expand(1)[at],
    ],
)
def test_an_index_of_one_element_is_checked(fn: Callable[..., Tensor], tier: str, tmp_path: Path) -> None:
    x, at = torch.tensor([3.0, 4.0]), torch.tensor([0])
    dlc.save(fn, tmp_path / "m.dlc", (x, at))
    loaded, compiled = (
        dlc.load(tmp_path / "m.dlc", tier=tier),
        torch.compile(fn, backend="dlc", options={"tier": tier}),
    )
    for run in (loaded, compiled):
        assert torch.equal(run(x, at), fn(x, at))
        with pytest.raises((IndexError, RuntimeError), match="out of range"):
            run(x, at + 1)


def test_writes_to_one_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises((dlc.FileError, dlc.CaptureError), match="as_strided_scatter"):
        args = (torch.ones(4, 6), torch.ones(2, 3))
        dlc.save(lambda x, part: x.as_strided_scatter(part, (2, 3), (1, 1)), tmp_path / "m.dlc", args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": (3, 1, 2), "stride": (1, 3, 2), "padding": (1, 0, 1)},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": (2, 4, 3), "stride": 3, "ceil_mode": True},
    ],
    ids=str,
)
def test_pools_of_volumes(options: dict[str, Any], dtype: torch.dtype, tmp_path: Path) -> None:
    def made(x: Tensor, y: Tensor) -> list[Tensor]:
        found = [*F.max_pool3d(x, **options, return_indices=True), F.avg_pool3d(y, **options)]
        found += [F.avg_pool3d(y[0], **options, count_include_pad=False)]
        return [*found, F.avg_pool3d(y, **options, divisor_override=5)]

    x = elements(2, 3, 5, 6, 7, dtype=dtype)
    compare(made, tmp_path / "m.dlc", x, torch.where(x.isfinite(), x, 0.5))


@pytest.mark.parametrize("dilation", [1, 2, (1, 2, 3)])
def test_largest_of_dilated_volumes(dilation: Any, tmp_path: Path) -> None:
    def made(x: Tensor) -> list[Tensor]:
        return [*F.max_pool3d(x, 3, 2, 1, dilation, return_indices=True)]

    compare(made, tmp_path / "m.dlc", elements(2, 7, 8, 9))


@pytest.mark.parametrize("size", [1, 4, 40])
@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (5, 0)])
def test_places_of_what_is_not_zero(shape: tuple[int, ...], size: int, tmp_path: Path) -> None:
    def made(x: Tensor, y: Tensor) -> list[Tensor]:
        return [torch.nonzero_static(x, size=size), torch.nonzero_static(y, size=size, fill_value=7)]

    x = elements(*shape)
    compare(made, tmp_path / "m.dlc", x, x > 0)


def test_special_arguments(tmp_path: Path) -> None:
    def made(x: Tensor, one: Tensor, none: Tensor, pairs: Tensor, at: Tensor) -> list[Tensor]:
        found = [*torch.var_mean(x, 0, correction=1.5, keepdim=True), *torch.var_mean(x, correction=0.5)]
        found += [*torch.var_mean(none), torch.logsumexp(one, 0), torch.index_select(one, 0, at)]
        found += [F.rrelu(x, 0.1, 0.3), torch.view_as_complex(pairs) * 2]
        return [*found, F.pdist(x[:1]), F.pdist(x), F.pdist(x[:, :0])]

    g = torch.Generator().manual_seed(0)
    x, pairs = torch.randn(5, 3, generator=g), torch.randn(4, 2, generator=g)
    compare(
        made,
        tmp_path / "m.dlc",
        x,
        x[0, 0].clone(),
        x[:0, 0].clone(),
        pairs,
        torch.zeros(1, dtype=torch.int64),
    )
