"""A volume read at the points of a grid, decomposed with the steps of eager's kernel.

That kernel runs an element at a time.  Eager's kernel for images runs vectors: images are left to it.
"""

from __future__ import annotations

from itertools import product

import torch
from torch import SymInt, Tensor

NEAREST = 1
BORDER, REFLECTION = 1, 2


def _within(x: Tensor, size: int | SymInt) -> Tensor:
    """Cut to 0 .. size - 1; NaN is the end, as eager's minimum has it."""
    x = torch.where(x < 0, 0.0, x)
    return torch.where(x < size - 1, x, size - 1)


def _reflected(x: Tensor, twice_low: int, twice_high: int | SymInt) -> Tensor:
    """Turned back at either end as often as it takes."""
    if twice_low == twice_high:
        return torch.zeros_like(x)
    low, span = twice_low / 2, (twice_high - twice_low) / 2
    x = (x - low).abs()
    rest, flips = torch.fmod(x, span), torch.floor(x / span)
    return torch.where(torch.fmod(flips, 2) == 0, rest + low, span - rest + low)


def _position(x: Tensor, size: int | SymInt, padding: int, corners: bool) -> Tensor:
    """From -1 .. 1 to the axis: its ends are the outer elements' centres (`corners`) or their edges."""
    x = (x + 1) / 2 * (size - 1) if corners else ((x + 1) * size - 1) / 2
    if padding == REFLECTION:
        x = _reflected(x, 0, 2 * (size - 1)) if corners else _reflected(x, -1, 2 * size - 1)
    return _within(x, size) if padding in (BORDER, REFLECTION) else x


def grid_sampler_3d(image: Tensor, grid: Tensor, mode: int, padding: int, corners: bool) -> Tensor:
    """(N, C, D, H, W) at (N, d, h, w, 3): (N, C, d, h, w), where what is outside is 0.

    float32 and float64; of halves, which eager rounds step by step, the operator stays whole.
    """
    if image.dtype not in (torch.float32, torch.float64) or grid.dtype != image.dtype:
        return NotImplemented
    count, channels, *sizes = image.shape
    flat = image.reshape(count, channels, -1)
    images = torch.arange(count, device=image.device).view(-1, 1, 1)
    planes = torch.arange(channels, device=image.device).view(1, -1, 1)
    at = [
        _position(grid[..., 2 - k].reshape(count, 1, -1), size, padding, corners)
        for k, size in enumerate(sizes)
    ]

    def inside(places: list[Tensor]) -> Tensor:
        each = [(place >= 0) & (place < size) for place, size in zip(places, sizes, strict=True)]
        return each[0] & each[1] & each[2]

    def element(places: list[Tensor], here: Tensor) -> Tensor:
        z, y, x = (torch.where(here, place, 0).to(torch.int64) for place in places)
        index = (z * sizes[1] + y) * sizes[2] + x
        return torch.ops.aten._unsafe_index.Tensor(flat, [images, planes, index])

    if mode == NEAREST:
        places = [torch.round(p) for p in at]
        here = inside(places)
        result = torch.where(here, element(places, here), 0)
    else:
        low = [torch.floor(p) for p in at]
        result = torch.zeros_like(flat[..., :1])
        for corner in product((0, 1), repeat=3):
            places = [p + up for p, up in zip(low, corner, strict=True)]
            near = [p - f if up else f + 1 - p for p, f, up in zip(at, low, corner, strict=True)]
            here = inside(places)
            weight = near[2] * near[1] * near[0]
            result = result + torch.where(here, element(places, here) * weight, 0)
    return result.reshape(count, channels, *grid.shape[1:4]).contiguous()


def _slope(x: Tensor, size: int | SymInt, padding: int, corners: bool) -> Tensor:
    """The derivative of `_position`."""
    scale = (size - 1) / 2 if corners else size / 2
    at = _position(x, size, 0, corners)
    sign = torch.ones_like(x)
    if padding == REFLECTION:
        low, high = (0, 2 * (size - 1)) if corners else (-1, 2 * size - 1)
        if low == high:
            return torch.zeros_like(x)
        from_low = at - low / 2
        flips = torch.floor(from_low.abs() / ((high - low) / 2))
        sign = torch.where((from_low < 0) != (torch.fmod(flips, 2) != 0), -1.0, sign)
        at = _reflected(at, low, high)
    if padding in (BORDER, REFLECTION):
        sign = torch.where((at <= 0) | (at >= size - 1), 0.0, sign)
    return sign * scale


def grid_sampler_3d_backward(
    grad: Tensor, image: Tensor, grid: Tensor, mode: int, padding: int, corners: bool, mask: list[bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of the volume and of the grid."""
    if image.dtype not in (torch.float32, torch.float64) or grid.dtype != image.dtype:
        return NotImplemented
    count, channels, *sizes = image.shape
    flat, grad = image.reshape(count, channels, -1), grad.reshape(count, channels, -1)
    images = torch.arange(count, device=image.device).view(-1, 1, 1)
    planes = torch.arange(channels, device=image.device).view(1, -1, 1)
    points = [grid[..., 2 - k].reshape(count, 1, -1) for k in range(3)]
    at = [_position(x, size, padding, corners) for x, size in zip(points, sizes, strict=True)]
    low = [torch.round(p) if mode == NEAREST else torch.floor(p) for p in at]
    indices, values, slopes = [], [], [torch.zeros_like(points[0]) for _ in range(3)]
    for corner in product((0, 1), repeat=3) if mode != NEAREST else [(0, 0, 0)]:
        places = [p + up for p, up in zip(low, corner, strict=True)]
        each = [(place >= 0) & (place < size) for place, size in zip(places, sizes, strict=True)]
        here = each[0] & each[1] & each[2]
        z, y, x = (torch.where(here, place, 0).to(torch.int64) for place in places)
        indices.append((z * sizes[1] + y) * sizes[2] + x)
        near = [p - f if up else f + 1 - p for p, f, up in zip(at, low, corner, strict=True)]
        weight = near[2] * near[1] * near[0] if mode != NEAREST else 1
        values.append(torch.where(here, grad * weight, 0))
        if mask[1] and mode != NEAREST:
            found = torch.ops.aten._unsafe_index.Tensor(flat, [images, planes, indices[-1]])
            share = torch.where(here, (found * grad).sum(1, keepdim=True), 0)
            for k in range(3):
                others = near[(k + 1) % 3] * near[(k + 2) % 3] * share
                slopes[k] = slopes[k] + others if corner[k] else slopes[k] - others
    to_image = to_grid = None
    if mask[0]:
        index, value = torch.cat(indices, -1), torch.cat(values, -1)
        empty = torch.zeros_like(flat)
        to_image = torch.ops.aten._unsafe_index_put.default(empty, [images, planes, index], value, True)
        to_image = to_image.reshape(image.shape).contiguous()
    if mask[1]:
        turned = [s * _slope(x, n, padding, corners) for s, x, n in zip(slopes, points, sizes, strict=True)]
        to_grid = torch.stack(turned[::-1], -1).reshape(grid.shape).contiguous()
    return to_image, to_grid
