"""Linear algebra leaves torch: sizes, batches, strides, both precisions, and sizes that change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

import dlc

linalg = torch.linalg


def _loaded(function: Callable[..., Any], path: Path, *args: Tensor, **options: Any) -> Any:
    """A function of its own, as those of torch have no signature."""
    dlc.save(lambda *given: function(*given), path, args, check=False, **options)
    return dlc.load(path, tier="tcc")


def _compare(function: Callable[..., Any], path: Path, *args: Tensor, rtol: float = 1e-3) -> None:
    have, want = _loaded(function, path, *args)(*args), function(*args)
    for a, b in zip(tree_leaves(have), tree_leaves(want), strict=True):
        scale = b.abs().max().item() if b.numel() else 1.0
        torch.testing.assert_close(torch.as_tensor(a), b, rtol=rtol, atol=rtol * max(scale, 1e-3))


def _matrix(shape: tuple[int, ...], dtype: torch.dtype, how: str) -> Tensor:
    """Far from singular, and as it lies: rows, columns, or a part of a larger one."""
    gen = torch.Generator().manual_seed(sum(shape))
    wide = torch.randn([n + 2 for n in shape], generator=gen, dtype=dtype)
    made = wide[tuple(slice(1, n + 1) for n in shape)]
    rows, columns = shape[-2:]
    eye = torch.eye(rows, columns, dtype=dtype) * (2 + rows)
    made = made.add_(eye)
    return {"rows": made.contiguous(), "columns": made.mT.contiguous().mT, "part": made}[how]


def _definite(a: Tensor) -> Tensor:
    return a @ a.mT


_SQUARE: dict[str, Callable[[Tensor], Any]] = {
    "cholesky": lambda a: linalg.cholesky(_definite(a)),
    "cholesky upper": lambda a: linalg.cholesky(_definite(a), upper=True),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": lambda a: tuple(linalg.slogdet(a)),
    "solve": lambda a: linalg.solve(a, a.sum(-1, keepdim=True)),
    "solve on the right": lambda a: linalg.solve(a, a.mT + 1, left=False),
    "triangular": lambda a: linalg.solve_triangular(a, a.mT, upper=True),
    "unit triangular": lambda a: linalg.solve_triangular(a, a.mT / 9, upper=False, unitriangular=True),
    "lu": lambda a: tuple(linalg.lu(a)),
    "lu_solve": lambda a: linalg.lu_solve(*linalg.lu_factor(a), a.mT),
    "lu_solve adjoint": lambda a: linalg.lu_solve(*linalg.lu_factor(a), a.mT, adjoint=True),
    "eigenvalues": lambda a: linalg.eigvalsh(_definite(a)),
    "pinv": linalg.pinv,
}


_HOW = ("rows", "columns", "part")


@pytest.mark.parametrize(("name", "how"), [(name, _HOW[k % 3]) for k, name in enumerate(_SQUARE)])
def test_square(name: str, how: str, tmp_path: Path) -> None:
    shapes = {"rows": ((1, 1), (17, 17)), "columns": ((2, 3, 3),), "part": ((3, 1, 8, 8),)}[how]
    dtype = torch.float64 if how == "columns" else torch.float32
    for shape in shapes:
        _compare(_SQUARE[name], tmp_path / "m.dlc", _matrix(shape, dtype, how))


@pytest.mark.parametrize(
    ("shape", "mode"),
    [((1, 1), "reduced"), ((5, 3), "complete"), ((3, 5), "complete"), ((2, 9, 8), "reduced")],
)
def test_qr_has_lapacks_signs(shape: tuple[int, ...], mode: str, tmp_path: Path) -> None:
    _compare(
        lambda a: tuple(linalg.qr(a, mode)), tmp_path / "m.dlc", _matrix(shape, torch.float32, "columns")
    )


@pytest.mark.parametrize(
    ("shape", "full"), [((1, 1), True), ((6, 6), False), ((7, 3), True), ((3, 8), False)]
)
def test_svd_of_any_rank(shape: tuple[int, ...], full: bool, tmp_path: Path) -> None:
    a = _matrix(shape, torch.float32, "part")
    a[..., -1] = a[..., 0] if shape[-1] > 1 else 0.0
    model = _loaded(lambda a: tuple(linalg.svd(a, full_matrices=full)), tmp_path / "m.dlc", a)
    u, s, v = (torch.as_tensor(t) for t in model(a))
    count = min(shape)
    limit = {"rtol": 0.0, "atol": 1e-5 * a.abs().max().item() * sum(shape) + 1e-5}
    torch.testing.assert_close(s, linalg.svdvals(a), **limit)
    torch.testing.assert_close(u[:, :count] * s @ v[:count], a, **limit)
    torch.testing.assert_close(u.mT @ u, torch.eye(u.shape[-1]), **limit)
    torch.testing.assert_close(v @ v.mT, torch.eye(v.shape[-2]), **limit)


def test_pivots_are_needed(tmp_path: Path) -> None:
    a = torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 3.0], [0.0, 1.0, 0.0]])
    _compare(linalg.inv, tmp_path / "m.dlc", a)
    _compare(lambda a: tuple(linalg.lu_factor_ex(a)), tmp_path / "m.dlc", a)


def test_what_is_singular_is_said_by_info(tmp_path: Path) -> None:
    a = torch.tensor([[1.0, 2.0], [2.0, 4.0]])
    model = _loaded(lambda a: tuple(linalg.lu_factor_ex(a)), tmp_path / "m.dlc", a)
    assert int(model(a)[2]) == 2
    bad = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    model = _loaded(lambda a: tuple(linalg.cholesky_ex(a)), tmp_path / "m.dlc", bad)
    assert int(model(bad)[1]) == 2


@pytest.mark.parametrize("name", ["cholesky", "inv", "det", "lu", "solve"])
def test_sizes_that_change(name: str, tmp_path: Path) -> None:
    dims = {0: torch.export.Dim("B", min=1, max=64)}
    given = _matrix((3, 5, 5), torch.float32, "rows")
    model = _loaded(_SQUARE[name], tmp_path / "m.dlc", given, dynamic_shapes=((dims,),))
    other = _matrix((7, 5, 5), torch.float32, "rows")
    have, want = tree_leaves(model(other)), tree_leaves(_SQUARE[name](other))
    for a, b in zip(have, want, strict=True):
        scale = b.abs().max().item()
        torch.testing.assert_close(torch.as_tensor(a), b, rtol=1e-3, atol=1e-3 * scale)


def test_what_is_singular_leaves_the_other_rows(tmp_path: Path) -> None:
    """A zero times an infinity was subtracted from rows that were already known."""
    a = torch.tensor([[[1.0, 0, 0], [2, 0, 0], [1, 1, 1]], [[1, 0, 0], [0, 2, 0], [0, 3, 4]]])
    b = torch.tensor([[1.0, torch.inf], [1, torch.nan], [1, 1]])
    nan = torch.tensor([[4.0, 1, 1], [1, torch.nan, 1], [1, 1, 3]])

    def made(a: Tensor, b: Tensor, nan: Tensor) -> list[Tensor]:
        solved = linalg.solve_triangular(a, b, upper=False)
        right = linalg.solve_triangular(a.mT, b.mT, upper=True, left=False)
        return [solved, right, linalg.lu_factor(nan)[0]]

    for have, want in zip(
        _loaded(made, tmp_path / "m.dlc", a, b, nan)(a, b, nan), made(a, b, nan), strict=True
    ):
        torch.testing.assert_close(have, want, equal_nan=True)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_spectra_of_what_is_not_finite_are_nan(wrong: float, tmp_path: Path) -> None:
    """Of that matrix of a batch: vectors were those of the unit matrix."""
    a = torch.tensor([[[1.0, 0], [wrong, 2]], [[3, 0], [1, 2]]])

    def made(a: Tensor) -> list[Tensor]:
        return [*linalg.eigh(a), *linalg.svd(a)]

    for have in _loaded(made, tmp_path / "m.dlc", a)(a):
        assert have[0].isnan().all() and have[1].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_exponentials_of_large_matrices_end(dtype: torch.dtype, tmp_path: Path) -> None:
    """An infinite norm was halved for ever."""
    most = torch.finfo(dtype).max
    a = torch.tensor([[[torch.inf, 0], [0, 1]], [[-most, 0], [0, 1]], [[-2, 1], [0, 1]]], dtype=dtype)
    have = _loaded(linalg.matrix_exp, tmp_path / "m.dlc", a)(a)
    assert have[0].isnan().any()
    torch.testing.assert_close(have[1:], linalg.matrix_exp(a[1:]))


def test_degrees_of_polynomials_are_any_numbers(tmp_path: Path) -> None:
    """An infinite degree, and one beyond the whole numbers of f32, did not end; x was cut as degrees are."""
    x, n = torch.tensor([2.0, 2, 2, 2, 1]), torch.tensor([torch.inf, torch.nan, -1, 2.5, 2**24 + 4])
    whole = torch.tensor([0, 1, 2, 3])

    def made(x: Tensor, n: Tensor, whole: Tensor) -> list[Tensor]:
        special = torch.special
        by_number = [special.legendre_polynomial_p(whole, 2.5), special.laguerre_polynomial_l(0.5, whole)]
        return [*by_number, special.chebyshev_polynomial_t(x, n)]

    given = (x, n, whole)
    want = made(torch.tensor([2.0, 2, 2, 2, 1]), torch.tensor([-1.0, -1, -1, 2, 4]), whole)
    for a, b in zip(_loaded(made, tmp_path / "m.dlc", *given)(*given), want, strict=True):
        torch.testing.assert_close(a, b)


def test_results_lie_as_those_of_torch(tmp_path: Path) -> None:
    """A view of a factor whose columns are rows in memory was a ValueError of dlc.save."""

    def made(a: Tensor) -> list[Tensor]:
        rows = [linalg.inv(a), linalg.solve(a, a + 1), linalg.lu_factor(a)[0], linalg.qr(a)[0]]
        rows += [linalg.cholesky(_definite(a)), linalg.eigh(_definite(a))[1].abs(), linalg.svd(a)[0].abs()]
        return [one.mT.view(2, -1) for one in rows]

    a = _matrix((2, 3, 3), torch.float32, "rows")
    for have, want in zip(_loaded(made, tmp_path / "m.dlc", a)(a), made(a), strict=True):
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4)
