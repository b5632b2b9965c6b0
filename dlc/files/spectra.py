"""Eigenvalues of symmetric matrices and singular values by rotations: for a program without torch.

A round rotates the pairs of a whole matrix at once, and n - 1 rounds meet each pair once (R. P. Brent and
F. T. Luk, "The solution of singular-value and symmetric eigenvalue problems on multiprocessor arrays", 1985).
Singular values are the lengths of rows that have been made orthogonal (M. R. Hestenes, "Inversion of matrices
by biorthogonalization and related results", 1958).  An odd size gets a row of zeros, which nothing rotates.
Vectors are as exact as LAPACK's, and may have the other sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op
from torch._ops import OpOverload

from .matrices import eye, is_real, qr, steps

aten = torch.ops.aten
#: More rounds over all pairs than any matrix needs: the convergence is quadratic.
MOST_SWEEPS = 30


def _rotations(p: Tensor, q: Tensor, pq: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine that make the element pq of [[p, pq], [pq, q]] zero, with the smaller angle."""
    ratio = (q - p) / (2 * torch.where(active, pq, 1.0))
    tangent = torch.copysign(1 / (ratio.abs() + torch.hypot(ratio, torch.ones_like(ratio))), ratio)
    tangent = torch.where(active, tangent, 0.0)
    cosine = 1 / torch.hypot(tangent, torch.ones_like(tangent))
    return cosine, cosine * tangent


def _rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rows k and N - 1 - k rotated.  Then all but row 0 move one on: the next round has other pairs."""
    half = x.shape[-2] // 2
    top, bottom = x.narrow(-2, 0, half), x.narrow(-2, half, half).flip(-2)
    c, s = cosine.unsqueeze(-1), sine.unsqueeze(-1)
    first, last = c * top - s * bottom, s * top + c * bottom
    parts = [first.narrow(-2, 0, 1), last.narrow(-2, 0, 1), first.narrow(-2, 1, half - 1)]
    return torch.cat([*parts, last.narrow(-2, 1, half - 1).flip(-2)], -2)


def _sweeps(round_: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    """Rounds over all pairs until a sweep rotates none; round_: x, how many were rotated -> the next ones."""

    def one(x: Tensor, rotated: Tensor, j: Tensor) -> Any:
        return [*round_(x, rotated)], []

    def goes_on(x: Tensor, rotated: Tensor, sweep: Tensor) -> Tensor:
        return (rotated > 0) & (sweep < MOST_SWEEPS)

    def sweep_of(x: Tensor, rotated: Tensor, sweep: Tensor) -> Any:
        (x, rotated), _ = steps(one, [x, torch.zeros([], dtype=torch.int64)], x.shape[-2] - 1, [])
        return x, rotated, sweep + 1

    begin = (x.clone(), torch.ones([], dtype=torch.int64), torch.zeros([], dtype=torch.int64))
    made: Tensor = while_loop_op(goes_on, sweep_of, begin, ())[0]
    return made


def _even(x: Tensor, dim: int) -> Tensor:
    """With a row or column of zeros behind it, if it has an odd number of them, and at least two."""
    n = x.shape[dim]
    shape = list(x.shape)
    shape[dim] = n % 2 if n else 2
    return torch.cat([x, x.new_zeros(shape)], dim) if shape[dim] else x


def _scale(a: Tensor) -> Tensor:
    """So that squares neither overflow nor vanish: [.., 1, 1].  NaN of a matrix that is not finite."""
    most = a.abs().amax([-2, -1], keepdim=True)
    return torch.where(most.isfinite(), torch.where(most > 0, most, 1.0), torch.nan)


def _sorted_rows(values: Tensor, rows: Tensor, descending: bool) -> tuple[Tensor, Tensor]:
    from .alone import _order

    order = _order(values, descending)
    return values.gather(-1, order), rows.gather(-2, order.unsqueeze(-1).expand(rows.shape))


# -- symmetric matrices --------------------------------------------------------------------------------


def eigh(a: Tensor, uplo: str = "L") -> Any:
    """The values, ascending, and the vectors as columns; the triangle uplo of a is read."""
    n = a.shape[-1]
    if not is_real(a) or not isinstance(n, int):
        return NotImplemented
    if n == 0:
        return a.new_empty(a.shape[:-1]), a.new_empty(a.shape)
    half_of = a.tril() if uplo.upper() == "L" else a.mT.tril()
    scale = _scale(half_of)
    whole = (half_of + half_of.tril(-1).mT) / scale
    padded = _even(_even(whole, -1), -2)
    count = padded.shape[-1]
    half, eps = count // 2, torch.finfo(a.dtype).eps

    def round_(x: Tensor, rotated: Tensor) -> tuple[Tensor, Tensor]:
        square = x.narrow(-1, 0, count)
        diagonal = square.diagonal(dim1=-2, dim2=-1)
        p, q = diagonal.narrow(-1, 0, half), diagonal.flip(-1).narrow(-1, 0, half)
        pq = square.flip(-1).diagonal(dim1=-2, dim2=-1).narrow(-1, 0, half)
        norm = square.square().sum([-2, -1]).sqrt().unsqueeze(-1)
        active = pq.abs() > eps / count * norm
        cosine, sine = _rotations(p, q, pq, active)
        x = _rotated(x, cosine, sine)
        square = _rotated(x.narrow(-1, 0, count).mT, cosine, sine).mT
        return torch.cat([square, x.narrow(-1, count, count)], -1), rotated + active.sum()

    made = _sweeps(round_, torch.cat([padded, eye(padded, count) * (scale / scale)], -1))
    values = made.diagonal(dim1=-2, dim2=-1).narrow(-1, 0, n) * scale.squeeze(-1)
    vectors = made.narrow(-1, count, n).narrow(-2, 0, n)
    values, vectors = _sorted_rows(values, vectors, False)
    return values, vectors.mT.contiguous()


def _eigh(a: Tensor, UPLO: str = "L", compute_v: bool = True) -> Any:
    made = eigh(a, UPLO)
    return made if made is NotImplemented or compute_v else (made[0], a.new_empty([0]))


# -- singular values -----------------------------------------------------------------------------------


def _tall_svd(a: Tensor, full: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Of a [.., m, n] with m >= n: U, S and V."""
    m, n = a.shape[-2:]
    scale = _scale(a)
    padded = _even((a / scale).mT, -2)
    count = padded.shape[-2]
    half, eps = count // 2, torch.finfo(a.dtype).eps

    def round_(x: Tensor, rotated: Tensor) -> tuple[Tensor, Tensor]:
        rows = x.narrow(-1, 0, m)
        top, bottom = rows.narrow(-2, 0, half), rows.narrow(-2, half, half).flip(-2)
        p, q, pq = top.square().sum(-1), bottom.square().sum(-1), (top * bottom).sum(-1)
        norm = rows.square().sum([-2, -1]).unsqueeze(-1)
        active = pq.abs() > eps * (4 * p.sqrt() * q.sqrt() + eps / count * norm)
        return _rotated(x, *_rotations(p, q, pq, active)), rotated + active.sum()

    made = _sweeps(round_, torch.cat([padded, eye(padded, count) * (scale / scale)], -1))
    made = made.narrow(-2, 0, n)
    lengths = made.narrow(-1, 0, m).square().sum(-1).sqrt() * scale.squeeze(-1)
    values, made = _sorted_rows(lengths, made, True)
    # Rows that are orthogonal are R's diagonal, and Q has as many vectors as are asked for, also of zeros.
    unit, upper = qr(made.narrow(-1, 0, m).mT, "complete" if full else "reduced")
    signs = torch.copysign(torch.ones_like(values), upper.diagonal(dim1=-2, dim2=-1))
    if m > n and full:
        signs = torch.cat([signs, signs.new_ones([*signs.shape[:-1], m - n])], -1)
    return unit * signs.unsqueeze(-2) * (scale / scale), values, made.narrow(-1, m, n).mT


def svd(a: Tensor, full: bool) -> Any:
    """U, S and Vh."""
    m, n = a.shape[-2:]
    if not is_real(a) or not isinstance(m, int) or not isinstance(n, int):
        return NotImplemented
    if min(m, n) == 0:
        left, right = (eye(a, m if full else 0), eye(a.mT, n if full else 0))
        return left.contiguous(), a.new_empty([*a.shape[:-2], 0]), right.mT.contiguous()
    if a.shape[-2] >= a.shape[-1]:
        u, values, v = _tall_svd(a, full)
    else:
        v, values, u = _tall_svd(a.mT, full)
    return u.contiguous(), values, v.mT.contiguous()


def _svd(
    a: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> Any:
    made = svd(a, full_matrices and compute_uv)
    if made is NotImplemented or compute_uv:
        return made
    return a.new_empty([0]), made[1], a.new_empty([0])


def _pinv(
    a: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: bool = False
) -> Any:
    """By the values above max(atol, rtol * the largest)."""
    if not is_real(a):
        return NotImplemented
    if a.numel() == 0:
        return a.mT.clone()
    most = max(a.shape[-2:]) * torch.finfo(a.dtype).eps
    if hermitian:
        made = eigh(a)
        if made is NotImplemented:
            return made
        values, left = made
        right = left.mT
    else:
        made = svd(a, False)
        if made is NotImplemented:
            return made
        left, values, right = made
    sizes = values.abs()
    most_of = sizes.amax(-1)
    if rtol is None:
        rtol = torch.full_like(most_of, most)
        rtol = rtol if atol is None else torch.where(atol > 0, 0.0, rtol)
    limit = rtol * most_of if atol is None else torch.maximum(atol, rtol * most_of)
    kept = sizes > limit.unsqueeze(-1)
    inverse = torch.where(kept, 1 / torch.where(kept, values, 1.0), 0.0)
    return (right.mT * inverse.unsqueeze(-2)) @ left.mT


# -- the exponential -----------------------------------------------------------------------------------


def _matrix_exp(a: Tensor) -> Any:
    """By a polynomial of the matrix that was halved until its norm is at most a half, and squares of that."""
    if not is_real(a) or not all(isinstance(n, int) and n for n in a.shape):
        return NotImplemented
    norm = a.abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    most = 129.0 if a.dtype == torch.float32 else 1025.0  # also of an infinity, which gives NaN
    halvings = torch.where(norm > 0.5, (norm.log2() + 1).ceil().clamp(max=most), 0.0)
    small = a * (-halvings).exp2()
    unit = eye(a)
    made = unit
    for k in range(12 if a.dtype == torch.float32 else 18, 0, -1):
        made = unit + (small @ made) / k

    def goes_on(made: Tensor, left: Tensor) -> Tensor:
        return (left > 0).any()

    def squared(made: Tensor, left: Tensor) -> Any:
        return torch.where(left > 0, made @ made, made).clone(), left - 1

    return while_loop_op(goes_on, squared, (made.clone(), halvings.clone()), ())[0]


def spectra() -> dict[OpOverload, Callable[..., Any]]:
    """By operator, its program; NotImplemented where that does not hold for its arguments."""
    return {
        aten._linalg_eigh.default: _eigh,
        aten._linalg_svd.default: _svd,
        aten.linalg_pinv.atol_rtol_tensor: _pinv,
        aten.linalg_matrix_exp.default: _matrix_exp,
    }
