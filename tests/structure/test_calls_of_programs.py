"""The special calls of the C for libtcc are those that the lines of its loops say.

From the lines of a phase the tests say how often it copies elements into a tile, prefetches, stores
nontemporally, checks indices, and reduces by one call. Machine code says how often it does (`emit/unit.py`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.dlc_opt import opt
from tests.emit.unit import HAS_GCC, Unit

from .test_lines_of_programs import (
    CHANNELS,
    EXP_LOG1P,
    LAYER_NORM,
    MARKS,
    PRODUCT,
    ROWS,
    SCAN,
    SOFTMAX,
    STENCIL,
    TRANSPOSED_SUM,
)
from .test_target_lines import EMBEDDING_BAG, EMBEDDING_SUM, graph, lines

EMITTED = Path(__file__).parents[1] / "emit"
CORPUS = Path(__file__).parents[1] / "replay/corpus"

#: What the names of vector primitives begin with, by what they do besides computing.
KINDS = {
    "prefetch": "prefetch",
    "stream_end": "end",
    "stream": "nontemporal",
    "nontemporal": "nontemporal",
    "load": "copy",
    "take": "copy",
    "gather_": "copy",
    "unzip": "parts",
    "zip": "parts",
    "transpose": "transpose",
    "check_index": "check",
    "scan": "scan",
    "rows": "rows",
    "along": "one call",
    "down": "one call",
    "gathered": "one call",
}


class Line(NamedTuple):
    """A let of the loops, with the lets in it."""

    text: str
    marks: dict[str, str]
    body: list["Line"]

    @property
    def op(self) -> str:
        return re.sub(r"^let .*? = ", "", self.text).split()[0].rstrip("{")

    @property
    def made(self) -> str:
        found = re.match(r"let (\w+):", self.text)
        return found[1] if found else ""

    def words(self) -> set[str]:
        """The names that stand in it."""
        return set(re.findall(r"\w+", self.text.partition(" = ")[2] or self.text))

    def all(self) -> Iterator["Line"]:
        for line in self.body:
            yield line
            yield from line.all()


def nest(text: str) -> Line:
    """The text as lines in lines."""
    stack = [Line("", {}, [])]
    for row in (line.partition("  @")[0].strip() for line in text.splitlines()):
        if row.startswith("}"):
            stack.pop()
        words = row.split()
        marks = {}
        while words and (words[-1] == "{" or words[-1].split("=")[0] in MARKS):
            name, _, value = words.pop().partition("=")
            marks[name] = value
        line = Line(row, marks, [])
        if row.endswith("{"):
            stack[-1].body.append(line)
            stack.append(line)
        elif row and row != "}":
            stack[-1].body.append(line)
    return stack[0]


class Part(NamedTuple):
    """An access of one of the adjacent parts of elements, which one primitive loads or stores."""

    of: str
    place: int
    length: int

    def same(self, other: "Part") -> bool:
        """May one call do both?"""
        return self.of == other.of and abs(self.place - other.place) < self.length


def part(line: Line) -> Part:
    """Of `load x[i, 2*j + 1]` the second of two. Of an axis that has only parts, its index is a constant."""
    found = re.search(r"((?:load|store) \w+\[.*?)([^,[]*)\]", line.text)
    assert found, line.text
    terms = found[2].strip().split(" + ")
    place = int(terms.pop()) if terms[-1].isdigit() else 0
    factor = re.match(r"(\d+)\*", terms[0]) if terms else None
    return Part(found[1] + " + ".join(terms), place, int(factor[1]) if factor else 4)


def of_loads(block: Line, around: list[Line]) -> Counter[str]:
    """What the accesses and indices of one block say."""
    found: Counter[str] = Counter()
    lanes = bool(around) and around[-1].op == "reduce" and "lanes" in around[-1].marks
    done: list[Part] = []
    for line in block.body:
        tensor = re.search(r"(?:load|store) (\w+)", line.text)
        ahead = "prefetch" in line.marks or "prefetch_rows" in line.marks
        if line.op == "bind":
            found["check"] += 1
        if not tensor or line.op not in ("load", "store"):
            continue
        if "primitive" in line.marks:
            first = not any(part(line).same(one) for one in done)
            done.append(part(line)) if first else None
            found["parts"] += first
            found["prefetch"] += first and ahead
            continue
        found["prefetch"] += ahead and (not lanes or "prefetch_call" in line.marks)
        found["nontemporal"] += "nontemporal" in line.marks
        found["transpose"] += "transpose" in line.marks
        found["copy"] += line.op == "load" and "merged" not in line.marks
    return found


def spread(grid: Line, loop: Line) -> int:
    """What a row of the grid has one of and the loop uses: it is copied for each element. An index that a
    comparison makes is compared with the row's value itself.
    """
    made = {line.made for line in grid.body if line.op not in ("buffer", "for") and line.made}
    indices = {line.made for line in loop.body if line.op == "size" and "merged" in line.marks}
    used = [
        line for line in loop.body if not (line.op in ("lt", "le", "gt", "ge") and indices & line.words())
    ]
    return len(made & {word for line in used for word in line.words()})


def said(block: Line, around: list[Line]) -> Counter[str]:
    """What the lines in the block say, in order."""
    found = of_loads(block, around)
    for line in block.body:
        grid = next((loop for loop in reversed(around) if "grid" in loop.marks), None)
        if "pack" in line.marks or "micro" in line.marks:
            continue
        if "scan" in line.marks:
            found["scan"] += 1
        elif line.op == "reduce" and "primitive" in line.marks:
            found["rows" if grid else "one call"] += 1
            gathered = any(inner.op == "bind" for inner in line.body)
            if gathered:
                found += of_loads(line, [*around, line])
                found["copy"] -= 1
        elif grid and line.op in ("for", "reduce"):
            extent = re.search(r" in (\d+)", line.text)
            short = not extent or int(extent[1]) <= int(grid.marks["grid_row"])
            found["copy"] += spread(grid, line) if short else 0
            found["rows"] += line.op == "reduce"
            found += said(line, [*around, line])
        elif line.body:
            found += said(line, [*around, line])
    return found


def done(program: str, folder: Path) -> Counter[str]:
    """What the functions of the unit call."""
    found: Counter[str] = Counter()
    for function in Unit(program, "tcc", folder).functions():
        for name in function.strips():
            kind = next((kind for begin, kind in KINDS.items() if name.startswith(begin)), None)
            found += Counter([kind] if kind else [])
    del found["end"]
    return found


GROUPS = "f32[32, 600]"
GROUP_NORM = graph(
    "x: f32[8, 16, 150], w: f32[16]",
    "f32[8, 16, 150]",
    f"g: {GROUPS} = reshape x",
    "s: f32[32] = sum g axes=[1]",
    "m: f32[32] = mul s, 0.00166",
    f"a: {GROUPS} = expand m to=[0]",
    f"d: {GROUPS} = sub g, a",
    f"q: {GROUPS} = mul d, d",
    "v: f32[32] = sum q axes=[1]",
    "r: f32[32] = rsqrt v",
    f"b: {GROUPS} = expand r to=[0]",
    f"n: {GROUPS} = mul d, b",
    "h: f32[8, 16, 150] = reshape n",
    "e: f32[8, 16, 150] = expand w to=[1]",
    "y: f32[8, 16, 150] = mul h, e",
)
MASKED_SCAN = graph(
    "x: f32[64, 1000], m: bool[64, 1000]",
    "f32[64, 1000]",
    "k: f32[64, 1000] = where m, x, 0.0",
    "y: f32[64, 1000] = scan k op=sum axis=1",
)
STRIDED = graph(
    "x: f32[2, 32, 32, 8], w: f32[3, 3, 8, 16]",
    "f32[2, 15, 15, 16]",
    "v: f32[2, 15, 15, 3, 3, 8] = as_strided x offset=0 strides=[8192, 512, 16, 256, 8, 1]",
    'y: f32[2, 15, 15, 16] = contract v, w over="nyxpqc,pqco->nyxo"',
)
SUMS = graph(f"x: {ROWS}", "f32[200]", "y: f32[200] = sum x axes=[1]")
SMALL_STEP = graph(
    "p: f32[700, 9], g: f32[700, 9]",
    "f32[700, 9]",
    "s: f32[700, 9] = mul g, 0.01",
    "y: f32[700, 9] = sub p, s",
)
OVERLAPPING = graph(
    "x: f32[40, 257]",
    "f32[40, 128]",
    *(f"x{k}: f32[40, 128] = slice x axis=1 start={k} step=2" for k in range(3)),
    "m: f32[40, 128] = maximum x0, x1",
    "y: f32[40, 128] = maximum m, x2",
)


def long(program: str) -> str:
    """Rows that come from memory."""
    return program.replace("200", "8192").replace("1000", "4096")


PROGRAMS = {
    "softmax": SOFTMAX,
    "layer norm": LAYER_NORM,
    "channels": CHANNELS,
    "transposed sum": TRANSPOSED_SUM,
    "stencil": STENCIL,
    "embedding sum": EMBEDDING_SUM,
    "scan": SCAN,
    "exp then log1p": EXP_LOG1P,
    "product with a norm in front and a residual behind": PRODUCT,
    "step of an optimiser": SMALL_STEP,
    "group norm": GROUP_NORM,
    "softmax of bf16": SOFTMAX.replace("f32", "bf16"),
    "long softmax": long(SOFTMAX),
    "long layer norm": long(LAYER_NORM),
    "long softmax of bf16": long(SOFTMAX).replace("f32", "bf16"),
    "long sums": long(SUMS),
    "scan with a mask": MASKED_SCAN,
    "strided convolution": STRIDED,
    "embedding bag": EMBEDDING_BAG,
    "windows of three, two apart": OVERLAPPING,
}


@pytest.mark.skipif(not HAS_GCC, reason="needs gcc: reads the machine code that it makes")
@pytest.mark.parametrize("name", PROGRAMS)
def test_special_calls_are_those_that_the_lines_say(name: str, tmp_path: Path) -> None:
    assert done(PROGRAMS[name], tmp_path) == said(nest(lines(PROGRAMS[name], "tcc")), [])


@pytest.mark.in_turn(4)
@pytest.mark.skipif(not HAS_GCC, reason="needs gcc: reads the machine code that it makes")
@pytest.mark.parametrize("path", sorted(EMITTED.glob("*.dlc")), ids=lambda path: path.stem)
def test_they_are_those_of_the_kernels_of_tests_of_emission(path: Path, tmp_path: Path) -> None:
    program = path.read_text()
    loops = opt(program, "--pass", "lower,schedule,tcc")
    assert done(program, tmp_path) == said(nest(loops), [])


@pytest.mark.in_turn(16)
@pytest.mark.skipif(not HAS_GCC, reason="needs gcc: reads the machine code that it makes")
@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.dlc")), ids=lambda path: path.stem)
def test_they_are_those_of_models(path: Path, tmp_path: Path) -> None:
    program = path.read_text()
    assert done(program, tmp_path) == said(nest(lines(program, "tcc")), [])
