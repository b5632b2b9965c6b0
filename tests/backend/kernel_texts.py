"""Random texts of the notation, each with the same function written with torch's own operators."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

#: Elementwise functions with derivatives of any order everywhere: as a text, and with torch.
ONE: list[tuple[str, Callable[[Tensor], Tensor]]] = [
    ("{}", lambda x: x),
    ("sin({})", torch.sin),
    ("tanh({})", torch.tanh),
    ("exp(0.3 * {})", lambda x: torch.exp(0.3 * x)),
    ("({}) ** 2", lambda x: x**2),
    ("sqrt(2 + ({}) ** 2)", lambda x: torch.sqrt(2 + x**2)),
    ("sigmoid({})", torch.sigmoid),
]
TWO: list[tuple[str, Callable[[Tensor, Tensor], Tensor]]] = [
    ("{} * {}", lambda x, y: x * y),
    ("{} * {}", lambda x, y: x * y),
    ("{} * {}", lambda x, y: x * y),
    ("({} - {})", lambda x, y: x - y),
    ("{} / (2 + ({}) ** 2)", lambda x, y: x / (2 + y**2)),
    ("where({0} > {1}, ({0}) ** 2, {1})", lambda x, y: torch.where(x > y, x**2, y)),
]


@dataclass
class Place:
    """A subscript: an offset and multiples of letters, or an entry of a tensor of indices."""

    offset: int
    terms: list[tuple[int, str]]
    data: tuple[str, str] | None = None  # a tensor of indices, the letter that it is read by
    reverse: bool = False  # from the end of the axis
    edge: str = ""

    def text(self, axis: str) -> str:
        if self.data:
            return f"{self.data[0]}[{self.data[1]}]"
        parts = [letter if c == 1 else f"{c}*{letter}" for c, letter in self.terms]
        if self.reverse:
            return f"size({axis}) - 1 - {parts[0]}"
        if self.offset or not parts:
            parts.append(str(self.offset))
        return "+".join(parts).replace("+-", "-")


@dataclass
class Read:
    name: str
    places: list[Place]
    edge: str

    def text(self) -> str:
        inside = ", ".join(p.text(f"{self.name}, {k}") for k, p in enumerate(self.places))
        return f"{self.name}[{inside}]{' ' + self.edge if self.edge else ''}"

    def value(self, tensors: dict[str, Tensor], grid: dict[str, Tensor], rank: int) -> Tensor:
        tensor = tensors[self.name]
        at: list[Tensor] = []
        outside = torch.zeros((), dtype=torch.bool)
        for axis, place in enumerate(self.places):
            n = tensor.shape[axis]
            if place.data:
                index = tensors[place.data[0]][grid[place.data[1]]]
            else:
                index = torch.full((1,) * rank, place.offset)
                for c, letter in place.terms:
                    index = index + c * grid[letter]
                if place.reverse:
                    index = n - 1 - index
            if self.edge == "clamp":
                index = index.clamp(0, n - 1)
            elif self.edge == "wrap":
                index = index % n
            elif self.edge == "zero":
                outside = outside | (index < 0) | (index >= n)
                index = index.clamp(0, n - 1)
            at.append(index)
        value = tensor[tuple(at)] if at else tensor
        return torch.where(outside, 0, value) if self.edge == "zero" else value


@dataclass
class Line:
    name: str
    left: list[str]
    reduced: list[str]
    op: str
    sizes: dict[str, int]
    reads: list[Read]
    one: list[int]
    two: list[int]
    ranges: dict[str, int] = field(default_factory=dict)
    scale: str = ""

    def text(self) -> str:
        made = ONE[self.one[0]][0].format(self.reads[0].text())
        for k, read in enumerate(self.reads[1:]):
            right = ONE[self.one[k + 1]][0].format(read.text())
            made = TWO[self.two[k]][0].format(made, right)
        reduction = f"{self.op}[{','.join(self.reduced)}] " if self.reduced else ""
        ranges = "".join(f" for {letter} in 0..{n}" for letter, n in self.ranges.items())
        return f"{self.name}[{','.join(self.left)}] = {reduction}({made}){ranges}"

    def value(self, tensors: dict[str, Tensor]) -> Tensor:
        letters = [*self.left, *self.reduced]
        rank = len(letters)
        grid = {
            letter: torch.arange(self.sizes[letter]).view([-1 if j == k else 1 for j in range(rank)])
            for k, letter in enumerate(letters)
        }
        values = [read.value(tensors, grid, rank) for read in self.reads]
        made = ONE[self.one[0]][1](values[0])
        for k, value in enumerate(values[1:]):
            made = TWO[self.two[k]][1](made, ONE[self.one[k + 1]][1](value))
        made = made.expand([self.sizes[letter] for letter in letters])
        if not self.reduced:
            return made.clone()
        axes = tuple(range(len(self.left), rank))
        if self.op == "sum":
            return made.sum(axes)
        if self.op == "prod":
            return functools.reduce(torch.mul, made.flatten(len(self.left)).unbind(-1))
        return made.amax(axes) if self.op == "max" else made.amin(axes)


@dataclass
class Program:
    lines: list[Line]
    shapes: dict[str, tuple[int, ...]]
    indices: dict[str, tuple[int, int]]  # length, and what the entries are below

    @property
    def text(self) -> str:
        return "\n".join(line.text() for line in self.lines)

    def arguments(self, names: tuple[str, ...], seed: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return [
            torch.randint(0, self.indices[name][1], self.indices[name][:1], generator=generator)
            if name in self.indices
            else 0.5 * torch.randn(self.shapes[name], generator=generator, dtype=torch.float64)
            for name in names
        ]

    def function(self, names: tuple[str, ...]) -> Callable[..., Tensor]:
        def of(*args: Tensor) -> Tensor:
            tensors = dict(zip(names, args, strict=True))
            for line in self.lines:
                tensors[line.name] = line.value(tensors)
            return tensors[self.lines[-1].name]

        return of


class Draw:
    """One program, by its seed."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.indices: dict[str, tuple[int, int]] = {}

    def place(self, letters: list[str], sizes: dict[str, int], want: str | None) -> tuple[Place, int]:
        """A subscript, and how long its axis is at least."""
        r = self.r
        letter = want or r.choice(letters)
        kind = r.choice(
            ["one"] * 4 + ["sum"] * 4 + ["step", "sum_step", "offset", "number", "data", "reverse"]
        )
        if want and kind in ("number", "data"):
            kind = "sum"
        others = [other for other in letters if other != letter]
        if kind in ("sum", "sum_step") and not others:
            kind = "offset"
        if kind == "number":
            return Place(r.randint(0, 2), []), 3
        if kind == "data":
            name = f"I{len(self.indices)}"
            n = r.randint(2, 4)
            self.indices[name] = (sizes[letter], n)
            return Place(0, [], data=(name, letter)), n
        if kind == "reverse":
            return Place(0, [(1, letter)], reverse=True), sizes[letter]
        terms = [(2 if kind == "step" else 1, letter)]
        if kind in ("sum", "sum_step"):
            terms.append((r.choice([1, 2]) if kind == "sum_step" else 1, r.choice(others)))
            if kind == "sum_step":
                terms[0] = (r.choice([2, 3]), letter)
        if kind == "sum" and len(others) > 1 and r.random() < 0.2:
            terms = [(1, letter), *((1, other) for other in others[:2])]
        offset = r.randint(1, 2) if kind == "offset" else 0
        return Place(offset, terms), offset + sum(c * (sizes[x] - 1) for c, x in terms) + 1

    def line(self, name: str, earlier: Line | None) -> Line:
        r = self.r
        names = list("ijkl")[: r.randint(2, 4)]
        sizes = {letter: r.choice([2, 3]) for letter in names}
        nleft = r.randint(0 if r.random() < 0.2 and name == "Z" else 1, min(2, len(names)))
        left, reduced = names[:nleft], names[nleft:]
        r.shuffle(left)
        nreads = r.choice([1, 2, 2, 2, 3])
        reads: list[Read] = []
        for k in range(nreads):
            whole = [letter for letter in names if r.random() < 0.5]
            if earlier and k == 0:
                read = Read(earlier.name, [], r.choice(["zero", "clamp", "wrap"]))
                for _ in earlier.left:
                    read.places.append(Place(r.choice([0, 0, -1, 1]), [(1, r.choice(names))]))
                reads.append(read)
                continue
            edge = r.choice([""] * 5 + ["zero", "clamp", "wrap"])
            read = Read(f"{name}{'ABC'[k]}", [], edge)
            shape = []
            for axis in range(r.randint(1, 3)):
                place, n = self.place(names, sizes, whole[axis] if axis < len(whole) else None)
                if edge and not place.data and not place.reverse:
                    place.offset += r.choice([-1, 0, 1])
                    n = max(2, n - r.choice([0, 1]))
                read.places.append(place)
                shape.append(n)
            self.shapes[read.name] = tuple(shape)
            reads.append(read)
        line = Line(
            name,
            left,
            reduced,
            r.choice(["sum"] * 8 + ["prod", "max", "min"]),
            sizes,
            reads,
            [r.choice([0, 0, 0, r.randrange(len(ONE))]) for _ in reads],
            [r.randrange(len(TWO)) for _ in reads[1:]],
        )
        line.ranges = self.ranges(line)
        return line

    def ranges(self, line: Line) -> dict[str, int]:
        """The letters whose size does not follow from a read of a whole axis or by one sum."""
        whole, edged = set(), set()
        for read in line.reads:
            for place in read.places:
                letters = {place.data[1]} if place.data else {letter for _, letter in place.terms}
                if read.edge or read.name not in self.shapes:
                    edged |= letters
                elif place.data or (
                    place.terms == [(1, *letters)] and not place.offset and not place.reverse
                ):
                    whole |= letters
        free = [letter for letter in line.sizes if letter not in whole or letter in edged]
        alone = [letter for letter in free if letter not in edged]
        places = [place for read in line.reads for place in read.places]
        alone = [x for x in alone if any(x == y and not p.reverse for p in places for _, y in p.terms)]
        skip = alone[-1] if alone and self.r.random() < 0.8 else None
        return {letter: line.sizes[letter] for letter in free if letter != skip}

    def program(self) -> Program:
        first = self.line("Y", None)
        lines = [first]
        if self.r.random() < 0.3:
            lines.append(self.line("Z", first))
        return Program(lines, self.shapes, self.indices)


def draw(seed: int) -> Program:
    return Draw(seed).program()
