"""Random programs that write to parts of arrays, as Python functions.

A program has a few arrays: arguments, copies of them, and values computed of them. Each statement writes to
a part of one of them: a slice in one or more axes (also empty, of one element, with a step), a row, a mask,
positions, by `=`, `+=` or `copy_`; what it writes is computed of parts of the same array and of others, at
the same place or at another. Between the writes views are taken that are read later, and values are kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

ROWS, COLUMNS = 9, 12


def part(rng: random.Random, size: int, length: int | None = None) -> str:
    """A slice of an axis; of this length, if one is given."""
    if length is None:
        kind = rng.randrange(6)
        if kind == 0:
            return ":"
        lo = rng.randrange(size)
        if kind == 1:
            return f"{lo}:{lo + 1}"
        if kind == 2 and size > 4:
            return f"{rng.randrange(2)}:{size - rng.randrange(2)}:{rng.choice((2, 3))}"
        return f"{lo}:{rng.randrange(lo, size + 1)}"
    lo = rng.randrange(size - length + 1)
    return f"{lo}:{lo + length}"


def length_of(text: str, size: int) -> int:
    return len(range(size)[slice(*(int(k) if k else None for k in text.split(":")))])


class Program:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.names = ["x", "y"]
        self.kept: list[str] = []
        for _ in range(self.rng.randrange(1, 7)):
            self.statement()
        returned = self.rng.sample(self.names, self.rng.randrange(1, len(self.names) + 1)) + self.kept
        self.text = "\n    ".join(["def f(x, y, m, k):", *self.lines, f"return {', '.join(returned)},"])

    def statement(self) -> None:
        kind = self.rng.randrange(10)
        if kind == 0:
            self.new(f"{self.rng.choice(self.names)}.clone()")
        elif kind == 1:
            self.new(f"{self.rng.choice(self.names)} * 1.5 + {self.rng.choice(self.names)}")
        elif kind == 2:
            self.kept.append(f"k{len(self.kept)}")
            self.lines.append(f"{self.kept[-1]} = {self.read(3, COLUMNS)}.sin()")
        else:
            self.write()

    def new(self, text: str) -> None:
        self.names.append(f"z{len(self.names)}")
        self.lines.append(f"{self.names[-1]} = {text}")

    def read(self, rows: int, columns: int, name: str = "") -> str:
        rng = self.rng
        name = name or rng.choice(self.names)
        return f"{name}[{part(rng, ROWS, rows)}, {part(rng, COLUMNS, columns)}]"

    def value(self, name: str, place: str, rows: int, columns: int) -> str:
        rng = self.rng
        kind = rng.randrange(8)
        if kind == 0:
            return rng.choice(("0.5", "-1.0", "2"))
        if kind == 1:
            return f"{name}[{place}] * 0.5"
        if kind == 2:
            return f"{name}[{place}].flip(0)"
        if kind == 3:
            return f"{self.read(rows, columns, name)} + {self.read(rows, columns, name)}"
        if kind == 4:
            return f"{self.read(1, columns)} * 0.25"
        if kind == 5:
            return f"{name}[{place}] + {name}.mean()"
        return f"{self.read(rows, columns)} - {self.read(rows, columns, name)}"

    def write(self) -> None:
        rng = self.rng
        name = rng.choice(self.names)
        kind = rng.randrange(12)
        if kind == 0:
            line = f"{name}[m] = {rng.choice(('0.5', '-2'))}"
        elif kind == 1:
            line = f"{name}[k] = {self.read(3, COLUMNS)} * 0.5"
        elif kind == 2:
            row = rng.randrange(-ROWS, ROWS)
            line = f"{name}[{row}] {rng.choice(('=', '+='))} {self.read(1, COLUMNS)}[0]"
        elif kind == 3:
            column = rng.randrange(COLUMNS)
            line = f"{name}[:, {column}] {rng.choice(('=', '*='))} {self.read(ROWS, 1)}[:, 0]"
        else:
            places = part(rng, ROWS), part(rng, COLUMNS)
            rows, columns = length_of(places[0], ROWS), length_of(places[1], COLUMNS)
            place = ", ".join(places)
            value = self.value(name, place, rows, columns)
            line = f"{name}[{place}] {rng.choice(('=', '=', '+='))} {value}"
        self.lines.append(line)


def function(text: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"torch": torch}
    exec(text, names)
    return names["f"]


def arguments(layout: str, seed: int) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    if layout == "stepped":
        x, y = (torch.rand(ROWS, 2 * COLUMNS, generator=g)[:, ::2] for _ in range(2))
    elif layout == "transposed":
        x, y = (torch.rand(COLUMNS, ROWS, generator=g).t() for _ in range(2))
    elif layout == "one":
        both = torch.rand(2, ROWS, COLUMNS, generator=g)
        x, y = both[0], both[1]
    else:
        x, y = (torch.rand(ROWS, COLUMNS, generator=g) for _ in range(2))
    return [x, y, torch.rand(ROWS, COLUMNS, generator=g) > 0.6, torch.tensor([5, 0, -2])]
