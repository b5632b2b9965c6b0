"""Elements by their place in memory, and windows of volumes: for a program without torch.

torch.as_strided reads memory. What lies there is known of a tensor in rows that has its memory for itself, as
the arguments of a saved program are. A window of a volume is as many shifted copies as it has elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._ops import OpOverload
from torch._prims_common import is_contiguous_or_false
from torch.export.graph_signature import InputKind

from ..report.steps import stack_place
from . import FileError

aten = torch.ops.aten
#: The most elements of a window.
MOST_OF_A_WINDOW = 512


def _fixed(*sizes: Any) -> bool:
    return all(isinstance(n, int) for n in sizes)


# -- places in memory ----------------------------------------------------------------------------------


def _places(x: Tensor, size: list[Any], stride: list[Any], offset: Any) -> Tensor | None:
    """[size]: which element of x is there; None: that is not known, or there is none."""
    known = _fixed(*x.shape, *size, *stride, offset or 0) and is_contiguous_or_false(x)
    if not known or x.storage_offset() or x.untyped_storage().nbytes() != x.numel() * x.element_size():
        return None
    last = (offset or 0) + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 not in size and last >= x.numel():
        return None
    at = torch.full([1] * len(size), offset or 0, dtype=torch.int64)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[axis] = n
        at = at + (torch.arange(n) * step).reshape(shape)
    return at


def _as_strided_copy(x: Tensor, size: list[Any], stride: list[Any], storage_offset: Any = None) -> Any:
    at = _places(x, size, stride, storage_offset)
    return NotImplemented if at is None else x.reshape(-1).index_select(0, at.reshape(-1)).reshape(size)


def _as_strided(x: Tensor, size: list[Any], stride: list[Any], storage_offset: Any = None) -> Any:
    """In eager a view: places of such a view are those of what it is a view of."""
    of, begin = getattr(x, "_dlc_view_of", (x, None))
    offset = begin if storage_offset is None else storage_offset
    made = _as_strided_copy(of, size, stride, offset)
    if made is not NotImplemented:
        made._dlc_view_of = of, offset  # type: ignore[attr-defined]
    return made


def _is_whole(x: Tensor, bytes_of_memory: Any) -> bool:
    whole = is_contiguous_or_false(x) and _fixed(*x.shape) and not x.storage_offset()
    return whole and _fixed(bytes_of_memory) and bytes_of_memory == x.numel() * x.element_size()


def refuse_places(exported: Any, given: list[Any]) -> None:
    """Refuses, with its line, what reads memory by places and whose memory is not that of rows in eager.

    exported: as torch traced it, before any operator has become another one: its tensors have the memory that
    they have in eager. given: the leaves of the arguments.
    """
    signature, leaves, memory = exported.graph_signature, iter(given), {}
    reordered = (
        set()
    )  # what is computed of tensors whose memory has another order, which it may have in eager
    tensors = exported.state_dict | exported.constants
    for spec, node in zip(signature.input_specs, exported.graph.find_nodes(op="placeholder"), strict=True):
        value = next(leaves) if spec.kind is InputKind.USER_INPUT else tensors.get(spec.target)
        if isinstance(value, Tensor) and isinstance(node.meta.get("val"), Tensor):
            rows = not hasattr(value, "_dlc_rows_of") and not value.storage_offset()
            memory[node.meta["val"].untyped_storage()._cdata] = (
                value.untyped_storage().nbytes() if rows else -1
            )
            if hasattr(value, "_dlc_rows_of"):
                reordered.add(node)
    for node in exported.graph.nodes:
        in_rows = node.kwargs.get("memory_format") == torch.contiguous_format
        if not in_rows and not reordered.isdisjoint(node.all_input_nodes):
            reordered.add(node)

    def has_rows(node: Any) -> bool:
        value = node.meta["val"]
        storage = value.untyped_storage()
        if node.target is aten.as_strided.default:
            return has_rows(node.args[0])  # places of a view are those of what it is a view of
        if node in reordered:
            return False
        return _is_whole(value, memory.get(storage._cdata, storage.nbytes()))

    wrong = [
        f"  {node.target} (operator {node.name}, {place})" + (f": {place.text}" if place else "")
        for node in exported.graph.nodes
        if node.target in _BY_PLACE and not has_rows(node.args[0])
        for place in [stack_place(node.meta.get("stack_trace") or "")]
    ]
    if wrong:
        raise FileError(
            "it reads memory by places, of a tensor that has other elements there than its rows: it is "
            "transposed or a part of another. Clone it with memory_format=torch.contiguous_format:\n"
            + "\n".join(wrong)
        )


_BY_PLACE = (aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default)


def _all_differ(size: list[Any], stride: list[Any]) -> bool:
    """Has each element a place of its own? Of several at one place torch does not say which is written."""
    reach = 0
    for step, n in sorted((step, n) for n, step in zip(size, stride, strict=True) if n > 1):
        if step <= reach:
            return False
        reach += step * (n - 1)
    return True


def _as_strided_scatter(
    x: Tensor, src: Tensor, size: list[Any], stride: list[Any], storage_offset: Any = None
) -> Any:
    at = _places(x, size, stride, storage_offset)
    if at is None or not _all_differ(size, stride):
        return NotImplemented
    return x.reshape(-1).scatter(0, at.reshape(-1), src.reshape(-1)).reshape(x.shape)


def _view_as_complex(x: Tensor) -> Any:
    return torch.complex(x.select(-1, 0), x.select(-1, 1)) if x.dtype != torch.float16 else NotImplemented


def _index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    """Of a scalar, which has no axis, and by one."""
    if x.dim() and index.dim():
        return NotImplemented
    made = (x if x.dim() else x.reshape(1)).index_select(dim, index.reshape(1))
    return made if x.dim() else made.reshape([])


def _nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Any:
    """The places of the first `size` elements that are not zero, [size, axes]."""
    if not _fixed(*x.shape, size) or not x.dim() or not size:
        return NotImplemented
    if not x.numel():
        return torch.full([size, x.dim()], fill_value, dtype=torch.int64)
    is_one = (x != 0).reshape(-1)
    rank = is_one.to(torch.int64).cumsum(0) - 1
    to = torch.where(is_one & (rank < size), rank, size)  # the others have a place behind the last
    found = torch.zeros([size + 1], dtype=torch.int64).scatter(0, to, torch.arange(x.numel()))
    rest, columns = found.narrow(0, 0, size), []
    for n in reversed(x.shape):
        columns.append(rest % n)
        rest = rest // n
    there = torch.arange(size) < is_one.sum()
    return torch.where(there.unsqueeze(-1), torch.stack(columns[::-1], -1), fill_value)


# -- reductions of special arguments -------------------------------------------------------------------


def _var_mean(x: Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """Of a correction that is no whole number, and of nothing."""
    dims = list(dim) if dim else list(range(x.dim()))
    count = math.prod(x.shape[axis] for axis in dims)
    special = isinstance(correction, float) or (_fixed(count) and count == 0)
    if not special or not x.dtype.is_floating_point:
        return NotImplemented
    by = 1 if correction is None else correction
    mean = x.mean(dims, keepdim=True)
    squares = (x - mean).square().sum(dims, keepdim=keepdim)
    return squares / torch.full([], max(count - by, 0), dtype=x.dtype), mean if keepdim else x.mean(dims)


def _logsumexp(x: Tensor, dim: Any, keepdim: bool = False) -> Any:
    return NotImplemented if x.dim() or not x.dtype.is_floating_point else x.clone()


def _rrelu(
    x: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """Without training, and of nothing: it draws no random numbers."""
    if training and not (isinstance(x.numel(), int) and x.numel() == 0):
        return NotImplemented
    return F.leaky_relu(x, (lower + upper) / 2), noise.clone()


# -- windows of volumes --------------------------------------------------------------------------------


class _Windows:
    """Those of the last three axes of x; each argument has one number for each axis, or for all."""

    def __init__(self, x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> None:
        self.x, self.sizes = x, list(x.shape[-3:])
        self.kernel, self.padding, self.dilation = (
            [*given] * (3 if len(given) == 1 else 1) for given in (kernel, padding, dilation)
        )
        self.stride = [*stride] * (3 if len(stride) == 1 else 1) or self.kernel
        self.counts = []
        for n, k, s, p, d in zip(
            self.sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True
        ):
            reach = d * (k - 1) + 1
            count = (n + 2 * p - reach + (s - 1 if ceil else 0)) // s + 1
            self.counts.append(count - 1 if ceil and (count - 1) * s >= n + p else count)

    def parts(self, fill: float) -> Any:
        """For each element of a window: where it is in the window, and that element of all windows."""
        pads = []
        for n, k, s, p, d, count in zip(
            self.sizes, self.kernel, self.stride, self.padding, self.dilation, self.counts, strict=True
        ):
            pads[:0] = [p, max((count - 1) * s + d * (k - 1) + 1 - n - p, 0)]
        wide = F.pad(self.x, pads, value=fill)
        for place in itertools.product(*map(range, self.kernel)):
            part = wide
            for axis in range(3):
                at, s = place[axis] * self.dilation[axis], self.stride[axis]
                part = _every(part, axis - 3, at, s, self.counts[axis])
            yield place, part

    def starts(self, axis: int) -> Tensor:
        """[counts of all axes], along one of them: where windows begin."""
        shape = [1, 1, 1]
        shape[axis] = self.counts[axis]
        return (torch.arange(self.counts[axis]) * self.stride[axis] - self.padding[axis]).reshape(shape)


def _every(x: Tensor, axis: int, at: int, step: int, count: int) -> Tensor:
    return x.narrow(axis, at, (count - 1) * step + 1)[
        (..., slice(None, None, step), *[slice(None)] * (-axis - 1))
    ]


def _windows(x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> _Windows | None:
    if not _fixed(*x.shape[-3:]) or not x.dtype.is_floating_point or math.prod(kernel) > MOST_OF_A_WINDOW:
        return None
    return _Windows(x, kernel, stride, padding, dilation, ceil)


def _avg_pool3d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    windows = _windows(x, kernel_size, stride, padding, (1,), ceil_mode)
    if windows is None:
        return NotImplemented
    total: Any = 0.0
    for _, part in windows.parts(0.0):
        total = total + part
    if divisor_override:
        return total / divisor_override
    count: Any = 1
    for axis, (n, k, p) in enumerate(zip(windows.sizes, windows.kernel, windows.padding, strict=True)):
        begin = windows.starts(axis)
        end = (begin + k).clamp(max=n + p)
        count = count * ((end - begin) if count_include_pad else end.clamp(max=n) - begin.clamp(min=0))
    return total / count.to(x.dtype)


def _max_pool3d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = (0,),
    dilation: Any = (1,),
    ceil_mode: bool = False,
) -> Any:
    windows = _windows(x, kernel_size, stride, padding, dilation, ceil_mode)
    if windows is None:
        return NotImplemented
    best: Any = None
    for place, part in windows.parts(-math.inf):
        at, inside = 0, True
        for axis, n in enumerate(windows.sizes):
            here = windows.starts(axis) + place[axis] * windows.dilation[axis]
            at, inside = at * n + here, inside & (here >= 0) & (here < n)  # type: ignore[assignment]
        if best is None:
            best, place_of = part, torch.where(inside, at, -1).expand(part.shape)
            continue
        better = inside & ((part > best) | part.isnan() | (place_of < 0))
        best, place_of = torch.where(better, part, best), torch.where(better, at, place_of)
    return best, place_of


def strided() -> dict[OpOverload, Callable[..., Any]]:
    """By operator, its program; NotImplemented where that does not hold for its arguments."""
    return {
        aten.as_strided.default: _as_strided,
        aten.as_strided_copy.default: _as_strided_copy,
        aten.as_strided_scatter.default: _as_strided_scatter,
        aten.view_as_complex.default: _view_as_complex,
        aten.index_select.default: _index_select,
        aten.nonzero_static.default: _nonzero_static,
        aten.var_mean.correction: _var_mean,
        aten.logsumexp.default: _logsumexp,
        aten.rrelu_with_noise_functional.default: _rrelu,
        aten.avg_pool3d.default: _avg_pool3d,
        aten.max_pool3d_with_indices.default: _max_pool3d,
    }
