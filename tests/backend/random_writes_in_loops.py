"""Random NumPy functions whose loops write to elements and rows of the arrays that they carry."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any

ROWS, COLUMNS = 19, 6
#: What every function takes: two matrices, a vector and the rows that are looked up.
HEAD = "def program(a, b, v, at):\n"


class Loops:
    """Draws one: text."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        for _ in range(self.rng.randint(1, 2)):
            self.loop(1, [])
        self.text = HEAD + "".join(f"{line}\n" for line in self.lines)

    def row(self, indices: list[str]) -> str:
        """A row in range of either sign."""
        i = self.rng.choice(indices)
        return self.rng.choice((i, i, f"{i} - 1", f"{i} - 2", f"-{i}", f"at[{i}]", "0", "-1"))

    def column(self, indices: list[str]) -> str:
        return self.rng.choice((*map(str, range(-COLUMNS, COLUMNS)), *(f"{i} % {COLUMNS}" for i in indices)))

    def element(self, indices: list[str]) -> str:
        kind = self.rng.randrange(3)
        if kind == 0:
            return f"v[{self.row(indices)}]"
        return f"{self.rng.choice('ab')}[{self.row(indices)}, {self.column(indices)}]"

    def value(self, term: Callable[[list[str]], str], indices: list[str]) -> str:
        parts = [term(indices) for _ in range(self.rng.randint(1, 3))]
        return " + ".join(f"{part} * {self.rng.choice((0.25, 0.5, -0.25))}" for part in parts)

    def part(self, indices: list[str]) -> str:
        """Of a row, or one number."""
        if self.rng.random() < 0.3:
            return self.element(indices)
        return f"{self.rng.choice('ab')}[{self.row(indices)}]{self.rng.choice(('', '', '[::-1]'))}"

    def store(self, depth: int, indices: list[str]) -> None:
        how = self.rng.choice(("=", "=", "+=", "-="))
        if self.rng.random() < 0.4:
            to, value = f"{self.rng.choice('ab')}[{self.row(indices)}]", self.value(self.part, indices)
        else:
            to, value = self.element(indices), self.value(self.element, indices)
        self.lines.append(f"{'    ' * depth}{to} {how} {value}")

    def statement(self, depth: int, indices: list[str]) -> None:
        draw = self.rng.random()
        if draw < 0.15 and len(indices) < 2:
            self.loop(depth, indices)
        elif draw < 0.35:
            self.lines.append(f"{'    ' * depth}if {self.element(indices)} > {self.element(indices)}:")
            self.store(depth + 1, indices)
            if self.rng.random() < 0.4:
                self.lines.append(f"{'    ' * depth}else:")
                self.store(depth + 1, indices)
        else:
            self.store(depth, indices)

    def loop(self, depth: int, indices: list[str]) -> None:
        index = "ijk"[len(indices)]
        ends = self.rng.choice((f"1, {ROWS}", f"{ROWS - 1}, 0, -1", f"2, {ROWS}"))
        self.lines.append(f"{'    ' * depth}for {index} in range({ends}):")
        for _ in range(self.rng.randint(1, 3)):
            self.statement(depth + 1, [*indices, index])


def arguments(seed: int, dtype: str = "float64") -> tuple[Array, ...]:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, ROWS, COLUMNS)).astype(dtype)
    v = rng.standard_normal(ROWS).astype(dtype)
    return a, b, v, rng.integers(-ROWS, ROWS, ROWS)
