"""NumPy's products of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import reductions, unsigned
from .elementwise import _into
from .names import computes, named
from .shapes import diagonal, same_dtype
from .value import Array, is_array, lift, refuse


def _operands(name: str, *values: Any) -> list[Tensor]:
    tensors = same_dtype(*(lift(v) for v in values))
    if tensors[0].dtype in (torch.bool, torch.float16, *unsigned.SIGNED):
        refuse(f"np.{name} of {tensors[0].dtype} has no compiled form", "give it float32 or float64")
    return tensors


def _of_cuts(name: str, *values: Any, out: Any = None) -> Array | None:
    """The sum of products of two slices of vectors that have the same places, whose number is a value."""
    chosen = [v.chosen if is_array(v) and not v.scalar else None for v in values]
    if any(c is None or c.cut is None or c.whole.dim() != 1 for c in chosen):
        return None
    x, y = chosen
    if not x.cut.same_places(y.cut):  # type: ignore[union-attr]
        return None
    a, b = _operands(name, *(Array(c.whole) for c in chosen))  # type: ignore[union-attr]
    a = torch.conj_physical(a) if name == "vdot" and a.is_complex() else a
    terms = torch.where(x.mask, a * b, torch.zeros((), dtype=a.dtype))  # type: ignore[union-attr]
    return _give(terms.sum(dtype=a.dtype), out)


def _give(tensor: Tensor, out: Any = None, casting: str = "same_kind") -> Array:
    return _into(Array(tensor, scalar=tensor.dim() == 0), out, casting)


@computes(np.matmul)
def matmul(x1: Any, x2: Any, /, out: Any = None, **options: Any) -> Array:
    if options:
        refuse(f"np.matmul({next(iter(options))}=..) has no compiled form")
    found = _of_cuts("matmul", x1, x2, out=out)
    if found is not None:
        return found
    a, b = _operands("matmul", x1, x2)
    if not a.dim() or not b.dim():
        raise ValueError("matmul: an input operand does not have enough dimensions")
    return _give(torch.matmul(a, b), out)


@computes(np.dot)
def dot(a: Any, b: Any, out: Any = None) -> Any:
    found = _of_cuts("dot", a, b, out=out)
    if found is not None:
        return found
    x, y = lift(a), lift(b)
    if not x.ndim or not y.ndim:
        return _into(np.multiply(x, y), out, "no")
    if y.ndim > 2:
        refuse(
            "np.dot with an array of more than two axes has no compiled form", "use np.matmul or np.einsum"
        )
    return _give(torch.matmul(*_operands("dot", x, y)), out, "no")


@computes(np.vdot)
def vdot(a: Any, b: Any, /) -> Array:
    found = _of_cuts("vdot", a, b)
    if found is not None:
        return found
    x, y = _operands("vdot", a, b)
    x = x.reshape(-1)
    return _give(torch.matmul(torch.conj_physical(x) if x.is_complex() else x, y.reshape(-1)))


def _of_vectors(x: Tensor, y: Tensor, out: Any) -> Array:
    return _give((torch.conj_physical(x) * y if x.is_complex() else x * y).sum(-1, dtype=x.dtype), out)


@computes(*named("vecdot"))
def vecdot(x1: Any, x2: Any, /, out: Any = None, *, axis: int = -1) -> Array:
    x, y = (np.moveaxis(lift(v), axis, -1) for v in (x1, x2))
    return _of_vectors(*_operands("vecdot", x, y), out)


@computes(*named("matvec"))
def matvec(x1: Any, x2: Any, /, out: Any = None) -> Array:
    a, v = _operands("matvec", x1, x2)
    return _give(torch.matmul(a, v.unsqueeze(-1)).squeeze(-1), out)


@computes(*named("vecmat"))
def vecmat(x1: Any, x2: Any, /, out: Any = None) -> Array:
    v, a = _operands("vecmat", x1, x2)
    v = torch.conj_physical(v) if v.is_complex() else v
    return _give(torch.matmul(v.unsqueeze(-2), a).squeeze(-2), out)


@computes(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    found = _of_cuts("inner", a, b)
    if found is not None:
        return found
    x, y = lift(a), lift(b)
    if not x.ndim or not y.ndim:
        return np.multiply(x, y)
    if y.ndim > 2:
        refuse("np.inner with an array of more than two axes has no compiled form", "use np.einsum")
    p, q = _operands("inner", x, y)
    return _give(torch.matmul(p, q if q.dim() == 1 else q.transpose(0, 1)))


@computes(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    x, y = lift(a), lift(b)
    return _into(np.multiply(x.ravel()[:, None], y.ravel()[None, :]), out, broadcast=True)


@computes(np.kron)
def kron(a: Any, b: Any) -> Any:
    x, y = lift(a), lift(b)
    ndim = max(x.ndim, y.ndim)
    x, y = (v[(*(None,) * (ndim - v.ndim), ...)] for v in (x, y))
    apart = np.multiply(x[(slice(None), None) * ndim], y[(None, slice(None)) * ndim])
    return apart.reshape([m * n for m, n in zip(x.shape, y.shape, strict=True)])


@computes(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Array:
    x, y = _operands("tensordot", a, b)
    axes = axes if isinstance(axes, int) else [[ax] if isinstance(ax, int) else list(ax) for ax in axes]
    return Array(torch.tensordot(x, y, dims=axes))


@computes(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False) -> Array:
    subscripts, *arrays = operands
    if not isinstance(subscripts, str):
        refuse("np.einsum of lists has no compiled form", "give it text: 'ij,jk->ik'")
    return _give(torch.einsum(subscripts, *_operands("einsum", *arrays)), out, "safe")


@computes(np.cross)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None) -> Array:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _operands("cross", np.moveaxis(lift(a), axisa, -1), np.moveaxis(lift(b), axisb, -1))
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        refuse("np.cross of other vectors than of three has no compiled form", "write it out")
    (x0, x1, x2), (y0, y1, y2) = x.unbind(-1), y.unbind(-1)
    found = torch.stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], -1)
    return np.moveaxis(Array(found), -1, axisc)


@computes(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    return reductions.sum_(diagonal(a, offset, axis1, axis2), -1, dtype)


@computes(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    found = lift(x)
    if not found.tensor.is_floating_point() and not found.tensor.is_complex():
        found = Array(found.tensor.double(), scalar=found.scalar)
    axes = 1 if isinstance(axis, int) else found.ndim if axis is None else len(axis)
    if ord is None or (ord == "fro" and axes == 2):
        return np.sqrt(reductions.sum_(_squares(found), axis, keepdims=keepdims))
    if axes != 1:
        refuse("np.linalg.norm of matrices with ord= has no compiled form", "np.linalg.norm(x) is Frobenius'")
    size = abs(found)
    if ord in (np.inf, -np.inf):
        extreme = reductions.max_ if ord > 0 else reductions.min_
        return extreme(size, axis, keepdims=keepdims)
    if ord == 1:
        return reductions.sum_(size, axis, keepdims=keepdims)
    if ord == 2:
        return np.sqrt(reductions.sum_(_squares(found), axis, keepdims=keepdims))
    refuse(f"np.linalg.norm(ord={ord}) has no compiled form", "ord is 1, 2 or np.inf")


def _squares(found: Array) -> Array:
    if not found.tensor.is_complex():
        return found * found
    return found.real * found.real + found.imag * found.imag
