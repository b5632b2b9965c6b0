"""Places in sorted arrays, and what is interpolated between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import host, unsigned
from .called import Sizes
from .names import computes
from .value import Array, is_array, is_known, lift, refuse, together, torch_dtype


def _places(among: Tensor, values: Tensor, right: bool) -> Tensor:
    """Where the values belong in rising order, in which NaN comes last."""
    if not among.is_floating_point():
        return torch.searchsorted(among, values, right=right)
    missing = torch.isnan(among)
    numbers = among.shape[0] - missing.sum()
    found = torch.searchsorted(torch.where(missing, torch.inf, among), values, right=right)
    last = torch.full_like(found, among.shape[0]) if right else numbers
    return torch.where(torch.isnan(values), last, torch.minimum(found, numbers))


@computes(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Array:
    among, values = lift(a), lift(v)
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right' (got {side!r})")
    if among.ndim != 1:
        raise ValueError("object too deep for desired array" if among.ndim else "object of too small depth")
    dtype = together(among, values)
    if dtype.kind == "c":
        refuse("np.searchsorted of complex numbers has no compiled form", "sort by their parts")
    if sorter is not None:
        among = among[lift(sorter)]
    to = torch_dtype(np.int8 if dtype.kind == "b" else dtype)
    ends, wanted = (unsigned.in_order(a.tensor.to(to)).contiguous() for a in (among, values))
    found = _places(ends, wanted, side == "right")
    return Array(found, scalar=found.dim() == 0)


def _binned(x: Any, bins: Any, right: Any = False) -> Sizes:
    return [list(np.shape(x))]


host.enter(np.digitize, _binned)


@computes(np.digitize)
def digitize(x: Any, bins: Any, right: Any = False) -> Any:
    if not is_known(bins):
        return host.call("digitize", x, bins, right)  # only values say whether bins rise or fall
    ends = np.asarray(bins)
    np.digitize(np.zeros(0), ends)  # raises for bins that do neither
    if ends.size > 1 and ends[0] > ends[-1]:
        return len(ends) - searchsorted(ends[::-1], x, "left" if right else "right")
    return searchsorted(ends, x, "left" if right else "right")


# -- interpolation -------------------------------------------------------------------------------------


def _of_x(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Sizes:
    return [list(np.shape(x))]


host.enter(np.interp, _of_x)


@computes(np.interp)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """As NumPy computes it: along the line from the place before x, from that behind where this is NaN."""
    at, places, heights = (v if is_array(v) else lift(v) for v in (x, xp, fp))
    if period is not None or heights.dtype.kind == "c" or places.ndim != 1 or heights.ndim != 1:
        return host.call("interp", x, xp, fp, left, right, period)
    if places.shape[0] == 0:
        raise ValueError("array of sample points is empty")
    if places.shape[0] != heights.shape[0]:
        raise ValueError("fp and xp are not of the same length.")
    t, p, f = (v.tensor.to(torch.float64).contiguous() for v in (at, places, heights))
    t = t if at.ndim else t.reshape(1)
    below = f[0] if left is None else lift(left).tensor.to(torch.float64)
    above = f[-1] if right is None else lift(right).tensor.to(torch.float64)
    if p.shape[0] == 1:
        found = torch.where(t < p, below, torch.where(t > p, above, f))
        return Array(found if at.ndim else found.reshape(()), scalar=not at.ndim)
    last = p.shape[0] - 1
    behind = torch.searchsorted(p, t, right=True)
    k = torch.clamp(behind - 1, 0, last - 1)
    j = k + 1
    slope = (f[j] - f[k]) / (p[j] - p[k])
    found = slope * (t - p[k]) + f[k]
    found = torch.where(torch.isnan(found), slope * (t - p[j]) + f[j], found)
    found = torch.where(torch.isnan(found) & (f[k] == f[j]), f[k], found)
    found = torch.where(t == p[k], f[k], found)
    found = torch.where(t >= p[-1], torch.where(t == p[-1], f[-1], above), found)
    found = torch.where(t < p[0], below, found)
    found = torch.where(torch.isnan(t), t, found)
    return Array(found if at.ndim else found.reshape(()), scalar=not at.ndim)
