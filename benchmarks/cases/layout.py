"""Elements from other places: transposes, slices, concatenations."""

import torch
from torch import Tensor

from benchmarks.cases.case import Case, case, cube, known, normal, rows
from examples.programs.functions import transpose_add


def rotary(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding of (positions, heads, features): features turn in pairs of halves."""
    a, b = x.chunk(2, -1)
    return x * cosine[:, None] + torch.cat([-b, a], -1) * sine[:, None]


def positions(n: int) -> tuple[tuple[int, ...], ...]:
    length, heads, width = cube(n, 64)
    return (length, heads, width), (length, width), (length, width)


def join(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return torch.relu(torch.cat([x, y * 2, z + 1], -1))


def stencil(u: Tensor) -> Tensor:
    """A step of the heat equation inside the border."""
    middle = u[1:-1, 1:-1]
    return middle + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * middle)


def normalise(pictures: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Pixels of bytes, colours last, as planes of floats."""
    return (pictures.permute(0, 3, 1, 2).float() / 255 - mean) / deviation


def pictures(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    side = min(224, int((n / 3) ** 0.5))
    pixels = torch.randint(256, (max(1, n // (3 * side * side)), side, side, 3), generator=g)
    return pixels.to(torch.uint8), *(0.2 + torch.rand(3, 1, 1, generator=g) for _ in range(2))


CASES: tuple[Case, ...] = (
    known("concatenate"),
    case(rotary, normal(positions)),
    case(transpose_add, normal(lambda n: (rows(n), rows(n)[::-1]))),
    case(join, normal(lambda n: (rows(n // 3),) * 3)),
    case(stencil, normal(lambda n: ((int(n**0.5), int(n**0.5)),))),
    case(normalise, pictures),
)
