"""The C of each target has the loops that the lines of its loops say, and those that marks add to them.

How many loops a phase has is counted by gcc (`emit/unit.py`). A line is one loop, and each mark that means
more or fewer for a target has a row in `ROWS`, which says why.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.emit.unit import HAS_GCC, Unit

from .test_calls_of_programs import PROGRAMS, Line, nest
from .test_lines_of_programs import STEP_OF_HUNDRED
from .test_target_lines import lines


class Around(NamedTuple):
    """A loop of the lines with the loops around it, the innermost last."""

    line: Line
    loops: list[Line]

    def has(self, *marks: str) -> bool:
        return all(mark in self.line.marks for mark in marks)

    def around(self, mark: str) -> Line | None:
        return next((loop for loop in reversed(self.loops) if mark in loop.marks), None)

    def inside(self, op: str, mark: str = "") -> int:
        """How many lets with the operation and the mark its own body has."""
        return sum(let.op == op and (not mark or mark in let.marks) for let in self.line.body)


class Row(NamedTuple):
    """What loops have in the C of the targets besides the one of their line."""

    targets: str
    mark: str  # that the row is of
    loops: Callable[[Around], int]
    why: str


def is_loop(line: Line) -> bool:
    return line.op in ("for", "reduce")


def of_collapsed(it: Around) -> int:
    return -1 if it.loops and it.has("parallel") and it.around("parallel") and not it.around("tile") else 0


def of_fill(it: Around) -> int:
    return 3 + bool(it.inside("load")) - 1 + bool(it.inside("store"))


def of_segments(it: Around) -> int:
    """The runs of lets between the loops of a vector loop that store something or are used behind one."""
    if not any(is_loop(let) for let in it.line.body):
        return 0
    runs = [[]]  # type: list[list[Line]]
    for let in it.line.body:
        runs.append([]) if is_loop(let) else runs[-1].append(let)
    return sum(any(let.op == "store" or "array" in let.marks for let in run) for run in runs)


def of_rows(it: Around) -> int:
    """In a grid: short loops run as one call for all rows of a tile; around a longer one, the rows."""
    grid, extent = it.around("grid"), re.search(r" in (\d+)", it.line.text)
    if not grid or it.has("primitive"):
        return 0
    return 1 if not extent or int(extent[1]) > int(grid.marks["grid_row"]) else -1


def arrays(line: Line) -> int:
    return sum(let.op == "load" and "array" in let.marks for let in line.all())


def of_blocks(it: Around) -> int:
    extent = re.search(r" in (\d+)", it.line.text)
    return bool(extent) and int(extent[1]) > 1024


def of_call(it: Around) -> int:
    return 0 if it.has("lanes") and of_blocks(it) and not it.around("grid") else -1


def of_streams(it: Around) -> int:
    """A line of 16 elements waits behind what is in front of the first whole line, and before the last."""
    waiting = [int(let.marks["array"]) for let in it.line.body if let.op == "store" and "array" in let.marks]
    return 1 if max(waiting) > 16 else 3


def of_parts(it: Around) -> int:
    return 2 + 2 * int(it.line.marks["parts"])


ROWS = [
    Row("tcc cc c", "pack", lambda it: -1, "one call runs the loops"),
    Row("tcc cc c", "micro", lambda it: -1, "one call runs the loops"),
    Row("tcc cc c", "parallel", of_collapsed, "one inside the other count as one loop"),
    Row("tcc cc c", "tile", lambda it: 1, "over the tiles of its iterations"),
    Row("tcc cc", "tile", lambda it: 1, "over the tiles of the vector loop in it, of which each has a copy"),
    Row(
        "tcc cc c", "recurrences", lambda it: not it.has("scan") or "jam" in it.line.marks, "over its groups"
    ),
    Row("tcc", "primitive", of_call, "one call reduces a block, or all rows of a tile"),
    Row("tcc", "vector", of_rows, "in a grid: none, as one call is of several rows; or one over these rows"),
    Row(
        "cc",
        "streams",
        of_streams,
        "over what waits for non-temporal stores, and where it is a line, its lanes",
    ),
    Row("cc", "strip", lambda it: 2, "over strips, and over what is left behind the last of them"),
    Row("cc", "strip", lambda it: it.inside("load", "prefetch"), "the prefetches of a strip"),
    Row(
        "cc", "flat", lambda it: 2, "over blocks of rows, and over the elements of one; the line: a row alone"
    ),
    Row("cc", "flat", lambda it: 2 * arrays(it.line), "rows and elements of what a block has in an array"),
    Row("cc", "distribute", lambda it: max(int(let.marks.get("stage", 1)) for let in it.line.body), "stages"),
    Row("cc", "vector", of_segments, "around loops the line is over tiles: what is between them, over one"),
    Row("cc", "array", lambda it: 3, "identities of a tile, a step of all sums of it, and their array"),
    Row("cc", "array", lambda it: it.inside("load", "prefetch_rows"), "the cache lines of a row"),
    Row("cc", "lanes", lambda it: 3, "identities of the lanes, a step of all, and the rest of the row"),
    Row("cc c", "lanes", of_blocks, "over the blocks of a row of several"),
    Row(
        "cc", "parts", of_parts, "over groups of blocks; identities and a step of each block, over the block"
    ),
    Row("cc", "fill", of_fill, "the rest: its loads, which lanes have one, its terms, a step, its stores"),
]


def expected(it: Around, target: str) -> int:
    """The loops of the C for a line, and for those in it."""
    own = 1 + sum(row.loops(it) for row in ROWS if target in row.targets.split() and it.has(row.mark))
    if it.has("scan") and target == "tcc":
        return own
    inner = [Around(let, [*it.loops, it.line]) for let in it.line.body if is_loop(let)]
    if target != "cc" or not it.has("jam") or it.line.op == "reduce":
        return own + sum(expected(loop, target) for loop in inner)
    return own + 1 + sum(of_jam(loop, int(it.line.marks["jam"]), it.has("recurrences")) for loop in inner)


def of_jam(it: Around, rows: int, one: bool) -> int:
    """In a loop marked `jam`: for the rows that run at a time, and once more for a row alone. Each row has
    loops of its own, but what is `joint` goes over the rows in one; recurrences share all.
    """
    alone = expected(it, "cc")
    together = alone if one else rows * alone - (rows - 1) * it.has("joint")
    return together + alone


def phases(text: str) -> list[Line]:
    kernels = [line for line in nest(text).all() if line.op == "kernel"]
    return [line for kernel in kernels for line in kernel.body if is_loop(line)]


HUNDRED = "step of an optimiser of a hundred tensors"


@pytest.mark.skipif(not HAS_GCC, reason="needs gcc, which counts the loops")
@pytest.mark.parametrize("target", ["tcc", "cc", "c"])
@pytest.mark.parametrize("name", [*PROGRAMS, HUNDRED])
def test_the_loops_are_those_that_the_lines_say(name: str, target: str, tmp_path: Path) -> None:
    program = STEP_OF_HUNDRED if name == HUNDRED else PROGRAMS[name]
    said = [expected(Around(phase, []), target) for phase in phases(lines(program, target))]
    assert Unit(program, target, tmp_path).loops() == said
