"""Cube roots by the bits of a number: its exponent over 3, and steps of Newton's and Halley's.

Sources: FreeBSD's s_cbrt.c and s_cbrtf.c (the constants, the polynomial and the bounds of the errors).
"""

from __future__ import annotations

import torch
from torch import Tensor

#: For 1 / (a third of the bits of the power): 23 bits of the root.
_POLYNOMIAL = (
    *(1.87595182427177009643, -1.88497979543377169875, 1.621429720105354466140),
    *(-0.758397934778766047437, 0.145996192886612446982),
)


def _signed(root: Tensor, size: Tensor, a: Tensor) -> Tensor:
    itself = (size == 0) | ~torch.isfinite(size)
    return torch.copysign(torch.where(itself, size, root), a)


def _double(a: Tensor) -> Tensor:
    """Within 0.667 units of the last place, also below the smallest normal number."""
    size = a.abs()
    small = size < 2.0**-1022
    x = torch.where(small, size * 2.0**54, size)
    high = (x.view(torch.int64) >> 32).to(torch.int32).double()
    t = ((high * (1 / 3) + 715094163.0).to(torch.int64) << 32).view(torch.float64)
    r = (t * t) * (t / x)
    p = _POLYNOMIAL
    t = t * ((p[0] + r * (p[1] + r * p[2])) + ((r * r) * r) * (p[3] + r * p[4]))
    t = ((t.view(torch.int64) + 0x80000000) & -0x40000000).view(torch.float64)  # t * t is exact
    r = x / (t * t)
    t = t + t * ((r - t) / (t + t + r))
    return _signed(torch.where(small, t * 2.0**-18, t), size, a)


def _single(a: Tensor) -> Tensor:
    """Within 0.501 units of the last place: two steps in double."""
    size = a.abs()
    small = size < 2.0**-126
    bits = torch.where(small, size * 2.0**24, size).view(torch.int32)
    t = (bits.float() * (1 / 3) + 709958130.0).to(torch.int32).view(torch.float32).double()
    t, x = torch.where(small, t * 2.0**-8, t), size.double()
    for _ in range(2):
        r = t * t * t
        t = t * (x + x + r) / (x + r + r)
    return _signed(t.float(), size, a)


def cbrt(a: Tensor) -> Tensor:
    """a: of a float dtype."""
    return _double(a) if a.dtype == torch.float64 else _single(a.float()).to(a.dtype)


__all__ = ["cbrt"]
