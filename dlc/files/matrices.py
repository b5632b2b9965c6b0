"""Systems of equations and factors of matrices as loops over columns: for a program without torch.

Each step of a loop updates all of the matrix under a mask, so that sizes stay what they are and a batch
runs together.  Factors have LAPACK's form and signs: pivots are swaps, reflections have a factor tau
(https://netlib.org/lapack/lug).  torch raises where a matrix is singular or not positive definite.  These
divide by zero there: the result has infinities or NaN, and `info` says where.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op
from torch._ops import OpOverload

aten = torch.ops.aten

_Tensors = tuple[Tensor, ...]


def _own(t: Tensor) -> Tensor:
    """A scan wants the layout that it carries, and no two of one memory."""
    return t.clone(memory_format=torch.contiguous_format)


def steps(
    body: Callable[..., Any],
    carried: list[Tensor],
    count: Any,
    whole: list[Tensor],
    *,
    backwards: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """body(*carried, j, *whole) -> carried, rows for each j < count; rows are stacked along the last axis.

    The body sees nothing else: neither tensors nor sizes that change are taken from around it.
    """
    at = torch.arange(count)
    at = at.flip(0) if backwards else at

    def step(*args: Tensor) -> list[Tensor]:
        after, rows = body(*args)
        return [_own(t) for t in [*after, *rows]]

    if isinstance(count, int) and count == 0:
        return carried, []
    if any(isinstance(t.numel(), int) and t.numel() == 0 for t in carried):
        after, rows = body(*carried, torch.zeros([], dtype=torch.int64), *whole)  # for the sizes of the rows
        return after, [row.unsqueeze(-1).expand([*row.shape, count]) for row in rows]
    made = scan_op(step, [_own(t) for t in carried], [at], whole)
    return list(made[: len(carried)]), [rows.movedim(0, -1) for rows in made[len(carried) :]]


def column(x: Tensor, j: Tensor) -> Tensor:
    """x[.., j] with its axis."""
    return x.index_select(-1, j.reshape(1))


def row(x: Tensor, j: Tensor) -> Tensor:
    return x.index_select(-2, j.reshape(1))


def _down(x: Tensor) -> Tensor:
    """The numbers of the rows, as a column."""
    return torch.arange(x.shape[-2]).unsqueeze(-1)


def _across(x: Tensor) -> Tensor:
    return torch.arange(x.shape[-1])


def _first(wrong: Tensor) -> Tensor:
    """1 + the first place along the last axis that is wrong, 0 without one, as LAPACK's info."""
    if isinstance(wrong.shape[-1], int) and wrong.shape[-1] == 0:
        return torch.zeros(wrong.shape[:-1], dtype=torch.int32)
    place = wrong.to(torch.int32).argmax(-1) + 1
    return torch.where(wrong.any(-1), place, 0).to(torch.int32)


def is_real(*given: Tensor) -> bool:
    return all(t.dtype in (torch.float32, torch.float64) for t in given)


# -- Cholesky ------------------------------------------------------------------------------------------


def _cholesky_ex(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    if not is_real(a):
        return NotImplemented

    def body(rest: Tensor, j: Tensor) -> Any:
        here = column(rest, j)
        pivot = row(here, j)
        made = torch.where(_down(rest) >= j, here / pivot.sqrt(), 0.0)
        return [rest - made * made.mT], [made.squeeze(-1), pivot.squeeze(-1).squeeze(-1)]

    _, rows = steps(body, [a.mT if upper else a], a.shape[-1], [])
    if not rows:
        return a.clone(), torch.zeros(a.shape[:-2], dtype=torch.int32)
    factor, pivots = rows
    return (factor.mT if upper else factor).contiguous(), _first(~(pivots > 0))


def _cholesky(a: Tensor, upper: bool = False) -> Any:
    made = _cholesky_ex(a, upper=upper)
    return made if made is NotImplemented else made[0]


def _cholesky_solve(b: Tensor, a: Tensor, upper: bool = False) -> Any:
    if not is_real(a, b):
        return NotImplemented
    a, b = _batched(a, b)
    lower = a.mT if upper else a
    return substitute(lower.mT, substitute(lower, b, upper=False), upper=True)


def _cholesky_inverse(a: Tensor, upper: bool = False) -> Any:
    return _cholesky_solve(eye(a), a, upper)


# -- triangles -----------------------------------------------------------------------------------------


def eye(a: Tensor, columns: Any = None) -> Tensor:
    """The unit matrix with the batch of a."""
    one = _down(a) == torch.arange(a.shape[-2] if columns is None else columns)
    return one.to(a.dtype).expand([*a.shape[:-2], *one.shape])


def _batched(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    if not isinstance(a.dim(), int) or a.shape[:-2] == b.shape[:-2]:
        return a, b
    head = list(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    return a.expand([*head, *a.shape[-2:]]), b.expand([*head, *b.shape[-2:]])


def substitute(a: Tensor, b: Tensor, *, upper: bool, unit: bool = False) -> Tensor:
    """a x = b for the triangle of a; unit: its diagonal counts as ones."""

    def body(x: Tensor, j: Tensor, a: Tensor) -> Any:
        here, down = column(a, j), _down(x)
        known = row(x, j) if unit else row(x, j) / row(here, j)
        rest = torch.where(down < j if upper else down > j, x - here * known, x)
        return [torch.where(down == j, known, rest)], []

    return steps(body, [b], a.shape[-1], [a], backwards=upper)[0][0]


def _solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if not is_real(a, b):
        return NotImplemented
    a, b = _batched(a, b)
    if left:
        return substitute(a, b, upper=upper, unit=unitriangular)
    return substitute(a.mT, b.mT, upper=not upper, unit=unitriangular).mT.clone(
        memory_format=torch.contiguous_format
    )


def _triangular_solve(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    if not is_real(a, b):
        return NotImplemented
    a, b = _batched(a, b)
    triangle, is_upper = (a.mT, not upper) if transpose else (a, upper)
    return substitute(triangle, b, upper=is_upper, unit=unitriangular), a.clone()


# -- LU ------------------------------------------------------------------------------------------------


def _lu(a: Tensor, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """The packed factors, the swaps from 1, and the rows in their new order."""

    def body(rest: Tensor, order: Tensor, j: Tensor) -> Any:
        down, across = _down(rest), _across(rest)
        here = column(rest, j)
        chosen = j.expand(here.shape[:-1])[..., :1]
        if pivot:
            chosen = torch.where(down >= j, here.abs(), -1.0).squeeze(-1).argmax(-1, keepdim=True)
            at = torch.arange(rest.shape[-2])
            swap = torch.where(at == j, chosen, torch.where(at == chosen, j, at))
            rest = rest.gather(-2, swap.unsqueeze(-1).expand(rest.shape))
            order = order.gather(-1, swap)
            here = column(rest, j)
        top = row(rest, j)
        by = row(here, j)
        low = torch.where((down > j) & (by != 0), here / by, 0.0)
        rest = torch.where((down > j) & (across > j), rest - low * top, rest)
        packed = torch.where((down > j) & (across == j), low, rest)
        return [packed, order], [chosen.squeeze(-1).to(torch.int32) + 1]

    order = torch.arange(a.shape[-2]).expand(a.shape[:-1])
    count = min(a.shape[-2], a.shape[-1])
    (packed, order), rows = steps(body, [a, order], count, [])
    swaps = rows[0] if rows else torch.zeros([*a.shape[:-2], 0], dtype=torch.int32)
    return packed, swaps.contiguous(), order


def _diagonal(a: Tensor) -> Tensor:
    if a.shape[-2:] == (0, 0):
        return a.sum(-1)  # as a reshape: nothing has no diagonal of strides
    return a.diagonal(dim1=-2, dim2=-1)


def _lower(packed: Tensor) -> Tensor:
    count = min(packed.shape[-2], packed.shape[-1])
    low = packed.narrow(-1, 0, count)
    return torch.where(_down(low) > _across(low), low, (_down(low) == _across(low)).to(low.dtype))


def _upper(packed: Tensor) -> Tensor:
    return packed.narrow(-2, 0, min(packed.shape[-2], packed.shape[-1])).triu()


def _permutation(order: Tensor, dtype: torch.dtype) -> Tensor:
    """P with P L U = a: rows of L U go where they came from."""
    return (torch.arange(order.shape[-1]).unsqueeze(-1) == order.unsqueeze(-2)).to(dtype)


def _lu_factor_ex(a: Tensor, *, pivot: bool = True, check_errors: bool = False) -> Any:
    if not is_real(a):
        return NotImplemented
    packed, swaps, _ = _lu(a, pivot)
    return packed, swaps, _first(_diagonal(packed) == 0)


def _linalg_lu(a: Tensor, *, pivot: bool = True) -> Any:
    if not is_real(a):
        return NotImplemented
    packed, _, order = _lu(a, pivot)
    moved = _permutation(order, a.dtype) if pivot else torch.empty([0], dtype=a.dtype)
    return moved, _lower(packed), _upper(packed)


def _order_of(swaps: Tensor, count: Any) -> Tensor:
    """By place, the row that the swaps bring there."""

    def body(order: Tensor, j: Tensor, swaps: Tensor) -> Any:
        at, other = torch.arange(order.shape[-1]), column(swaps, j).to(torch.int64) - 1
        return [order.gather(-1, torch.where(at == j, other, torch.where(at == other, j, at)))], []

    first = torch.arange(count).expand([*swaps.shape[:-1], count])
    return steps(body, [first], swaps.shape[-1], [swaps])[0][0]


def _lu_unpack(packed: Tensor, swaps: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    if not is_real(packed):
        return NotImplemented
    none = torch.empty([0], dtype=packed.dtype)
    order = _order_of(swaps, packed.shape[-2]) if unpack_pivots else None
    moved = none if order is None else _permutation(order, packed.dtype)
    low, up = (_lower(packed), _upper(packed)) if unpack_data else (none, none.clone())
    return moved, low, up


def _solved(packed: Tensor, order: Tensor, b: Tensor) -> Tensor:
    moved = b.gather(-2, order.unsqueeze(-1).expand(b.shape))
    return substitute(packed, substitute(packed, moved, upper=False, unit=True), upper=True)


def _solved_adjoint(packed: Tensor, order: Tensor, b: Tensor) -> Tensor:
    made = substitute(packed.mT, substitute(packed.mT, b, upper=False), upper=True, unit=True)
    back = torch.zeros_like(order).scatter(-1, order, torch.arange(order.shape[-1]).expand(order.shape))
    return made.gather(-2, back.unsqueeze(-1).expand(made.shape))


def _lu_solve(packed: Tensor, swaps: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False) -> Any:
    if not is_real(packed, b):
        return NotImplemented
    head = list(torch.broadcast_shapes(packed.shape[:-2], b.shape[:-2]))
    order = _order_of(swaps, packed.shape[-1])
    order = order.expand([*head, order.shape[-1]])
    packed, b = _batched(packed, b)
    if left:
        return (_solved_adjoint if adjoint else _solved)(packed, order, b)
    return (_solved if adjoint else _solved_adjoint)(packed, order, b.mT).mT.clone(
        memory_format=torch.contiguous_format
    )


def solve(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The solution, the packed factors, the swaps and info; b: [.., n, k]."""
    packed, swaps, order = _lu(a)
    wide, b = _batched(packed, b)
    return (
        _solved(wide, order.expand([*wide.shape[:-2], order.shape[-1]]), b),
        packed,
        swaps,
        _first(_diagonal(packed) == 0),
    )


def _solve_ex(a: Tensor, b: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    if not is_real(a, b):
        return NotImplemented
    is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    given = b.unsqueeze(-1) if is_vector else b
    if left or is_vector:
        made, packed, swaps, info = solve(a, given)
    else:
        made, packed, swaps, info = solve(a.mT, given.mT)
        made = made.mT.clone(memory_format=torch.contiguous_format)
        packed = _lu(a)[0]
    return made.squeeze(-1) if is_vector else made, packed, swaps, info


def _inv_ex(a: Tensor, *, check_errors: bool = False) -> Any:
    if not is_real(a):
        return NotImplemented
    made, _, _, info = solve(a, eye(a))
    return made, info


def _sign(swaps: Tensor, dtype: torch.dtype) -> Tensor:
    """Of the permutation."""
    moved = (swaps != torch.arange(swaps.shape[-1]) + 1).sum(-1)
    return (1 - 2 * (moved % 2)).to(dtype)


def _det(a: Tensor) -> Any:
    if not is_real(a):
        return NotImplemented
    packed, swaps, _ = _lu(a)
    return _diagonal(packed).prod(-1) * _sign(swaps, a.dtype), packed, swaps


def _slogdet(a: Tensor) -> Any:
    if not is_real(a):
        return NotImplemented
    packed, swaps, _ = _lu(a)
    diagonal = _diagonal(packed)
    return diagonal.sign().prod(-1) * _sign(swaps, a.dtype), diagonal.abs().log().sum(-1), packed, swaps


# -- QR ------------------------------------------------------------------------------------------------


def geqrf(a: Tensor) -> Any:
    """Reflections below the diagonal, R above, and tau [.., min(m, n)]."""
    if not is_real(a):
        return NotImplemented

    def body(rest: Tensor, j: Tensor) -> Any:
        down, across = _down(rest), _across(rest)
        here = torch.where(down >= j, column(rest, j), 0.0)
        most = here.abs().amax(-2, keepdim=True)  # squares neither overflow nor vanish
        scale = torch.where(most > 0, most, 1.0)
        norm = (here / scale).square().sum(-2, keepdim=True).sqrt() * scale
        tail = torch.where(down > j, here, 0.0)
        is_done = (tail == 0).all(-2, keepdim=True)
        head = row(here, j)
        beta = torch.where(is_done, head, -torch.copysign(norm, head))
        tau = torch.where(is_done, 0.0, (beta - head) / beta)
        low = torch.where(is_done, 0.0, tail / (head - beta))
        mirror = torch.where(down == j, 1.0, low)
        part = (mirror * rest).sum(-2, keepdim=True)
        rest = torch.where(across > j, rest - tau * mirror * part, rest)
        made = torch.where(down > j, low, torch.where(down == j, beta, rest))
        return [torch.where(across == j, made, rest)], [tau.squeeze(-1).squeeze(-1)]

    (made,), rows = steps(body, [a], min(a.shape[-2], a.shape[-1]), [])
    return made, rows[0].contiguous() if rows else a.new_empty([*a.shape[:-2], 0])


def reflect(mirrors: Tensor, tau: Tensor, x: Tensor, *, transpose: bool) -> Tensor:
    """Q x or Q^T x."""

    def body(x: Tensor, j: Tensor, mirrors: Tensor, tau: Tensor) -> Any:
        down, here = _down(x), column(mirrors, j)
        mirror = torch.where(down == j, 1.0, torch.where(down > j, here, 0.0))
        part = (mirror * x).sum(-2, keepdim=True)
        return [x - column(tau, j).unsqueeze(-1) * mirror * part], []

    return steps(body, [x], tau.shape[-1], [mirrors, tau], backwards=not transpose)[0][0]


def _householder_product(mirrors: Tensor, tau: Tensor) -> Any:
    if not is_real(mirrors):
        return NotImplemented
    return reflect(mirrors, tau, eye(mirrors, mirrors.shape[-1]), transpose=False)


def _ormqr(mirrors: Tensor, tau: Tensor, x: Tensor, left: bool = True, transpose: bool = False) -> Any:
    if not is_real(mirrors, x):
        return NotImplemented
    if left:
        return reflect(mirrors, tau, x, transpose=transpose)
    return reflect(mirrors, tau, x.mT, transpose=not transpose).mT.clone(
        memory_format=torch.contiguous_format
    )


def qr(a: Tensor, mode: str = "reduced") -> Any:
    if not is_real(a):
        return NotImplemented
    mirrors, tau = geqrf(a)
    count = a.shape[-2] if mode == "complete" else min(a.shape[-2], a.shape[-1])
    upper = mirrors.narrow(-2, 0, count).triu()
    if mode == "r":
        return a.new_empty([0]), upper
    return reflect(mirrors, tau, eye(a, count), transpose=False), upper


def _unchecked(*args: Any, **kwargs: Any) -> None:
    """A program without torch does not raise for the values of a matrix."""


def matrices() -> dict[OpOverload, Callable[..., Any]]:
    """By operator, its program; NotImplemented where that does not hold for its arguments."""
    return {
        aten._linalg_check_errors.default: _unchecked,
        aten.linalg_cholesky_ex.default: _cholesky_ex,
        aten.cholesky.default: _cholesky,
        aten.cholesky_solve.default: _cholesky_solve,
        aten.cholesky_inverse.default: _cholesky_inverse,
        aten.linalg_solve_triangular.default: _solve_triangular,
        aten.triangular_solve.default: _triangular_solve,
        aten.linalg_lu_factor_ex.default: _lu_factor_ex,
        aten.linalg_lu.default: _linalg_lu,
        aten.lu_unpack.default: _lu_unpack,
        aten.linalg_lu_solve.default: _lu_solve,
        aten._linalg_solve_ex.default: _solve_ex,
        aten.linalg_inv_ex.default: _inv_ex,
        aten._linalg_det.default: _det,
        aten._linalg_slogdet.default: _slogdet,
        aten.geqrf.default: geqrf,
        aten.linalg_householder_product.default: _householder_product,
        aten.ormqr.default: _ormqr,
        aten.linalg_qr.default: qr,
    }
