"""Windows that slide over arrays, and what is summed over them with weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view as numpys_windows
from torch import Tensor

from . import host
from .called import Sizes, overlaps
from .names import computes
from .shapes import axis_of, same_dtype, sizes
from .value import MAX_UNROLLED, Array, is_known, lift, refuse


@computes(numpys_windows)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Array:
    """A view of torch's (unfold), which is read anew each time it is used, as the array may be written to."""
    array, shape = lift(x), sizes(window_shape)
    if writeable:
        refuse("windows that are written to have no compiled form", "write to the array itself")
    axes = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    chosen = [axis_of(ax, array.ndim) for ax in axes]
    if len(chosen) != len(shape):
        raise ValueError(
            f"Must provide matching length window_shape and axis; got {len(shape)} and {len(chosen)}"
        )
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise ValueError("`window_shape` cannot contain negative values")

    def windows(t: Tensor) -> Tensor:
        for ax, n in zip(chosen, shape, strict=True):
            if n > t.shape[ax]:  # a condition of the variant
                raise ValueError("window shape cannot be larger than input array shape")
            t = t.unfold(ax, n, 1)
        return t

    windows(array.tensor)  # raises
    return array.view_of(windows, lazy=True)


# -- convolutions --------------------------------------------------------------------------------------


def _sizes(a: Any, v: Any, mode: Any = "full") -> Sizes:
    return [[overlaps(np.shape(a)[0], np.shape(v)[0], mode)]]


def _few(weights: Any) -> bool:
    """Weights that the function itself has written down, a few of them, are summed over slices."""
    return is_known(weights) and np.ndim(weights) == 1 and 0 < len(weights) <= MAX_UNROLLED


def _summed(values: Array, weights: np.ndarray, mode: str) -> Array:
    """out[i] = sum of values[i + j] * weights[j], of what overlaps as the mode says."""
    x, w = same_dtype(values, weights)
    n = len(weights)
    before, behind = {"valid": (0, 0), "same": (n // 2, (n - 1) // 2), "full": (n - 1, n - 1)}[mode]
    wide = torch.cat([x.new_zeros(before), x, x.new_zeros(behind)])
    count = wide.shape[0] - (n - 1)
    total = wide[:count] * w[0]
    for j in range(1, n):
        total = total + wide[j : j + count] * w[j]
    return Array(total)


def _compiled(values: Any, weights: np.ndarray, mode: Any) -> Array | None:
    array = lift(values)
    if array.ndim != 1 or array.dtype.kind not in "fciu" or mode not in ("valid", "same", "full"):
        return None
    if array.shape[0] < len(weights):  # a condition of the variant
        return None
    return _summed(array, weights, mode)


host.enter(np.convolve, _sizes)


@computes(np.convolve)
def convolve(a: Any, v: Any, mode: Any = "full") -> Any:
    if _few(a) and not is_known(v):
        a, v = v, a
    if _few(v):
        found = _compiled(a, np.asarray(v)[::-1].copy(), mode)
        if found is not None:
            return found
    return host.call("convolve", a, v, mode)


@computes(np.correlate)
def correlate(a: Any, v: Any, mode: Any = "valid") -> Any:
    if _few(v):
        found = _compiled(a, np.conjugate(np.asarray(v)), mode)
        if found is not None:
            return found
    return host.call("correlate", a, v, mode)
