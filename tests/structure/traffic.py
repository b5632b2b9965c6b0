"""What a compiled graph moves: its kernels, its calls, and the bytes between them and memory.

Read from the loops stage, because a phase (a loop of a kernel's own block) is what reads and writes memory:
what one phase stores and the next one loads moves twice, though both are one kernel. In a phase every
element that its loops visit counts once, however often: a row that a softmax reads three times comes from
the cache. That is the whole tensor, or less where the loops do not come to all of it: the half of what is
joined, or what there are indices to look up for.

Of a choice between short and long rows, the loops for long rows count.

A call counts its operands and its results whole. Scalars count nothing, nor does a buffer inside a loop,
which is a thread's own.
"""

import re
from dataclasses import dataclass, field

import sympy
from sympy import Expr

from tests.structure.kernels import VIEWS, Shape, split, without_short_rows

BYTES = {
    "bool": 1, "u8": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8,
    "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip
NAME = r"[A-Za-z_]\w*"
TYPE = r"(\w+)(?:\[([^\]]*)\])?"
ZERO = sympy.Integer(0)
LARGE = 100003  # every size, where one of two counts has to be the larger one


@dataclass(frozen=True)
class Type:
    dtype: str
    shape: Shape

    @property
    def bytes(self) -> Expr:
        return sympy.Mul(BYTES[self.dtype], *map(dim, self.shape)) if self.shape else ZERO


@dataclass
class Traffic:
    """Of one graph: `calls` are operators in their order, `least` is each parameter and result once."""

    kernels: int = 0
    calls: list[str] = field(default_factory=list)
    bytes: Expr = ZERO
    least: Expr = ZERO
    stored: Expr = ZERO  # of the bytes, those that kernels write


def dim(text: str) -> Expr:
    """An expression of sizes, which are whole and positive."""
    names = {n: size(n) for n in re.findall(NAME, text)} | {"max": sympy.Max, "min": sympy.Min}
    return sympy.sympify(eval(text, names))


def size(name: str) -> Expr:
    return sympy.Symbol(name, positive=True, integer=True)


def smaller(a: Expr, b: Expr) -> Expr:
    large = dict.fromkeys(a.free_symbols | b.free_symbols, LARGE)
    return a if a.subs(large) <= b.subs(large) else b


def binders(text: str) -> dict[str, Type]:
    found = re.findall(rf"({NAME}): {TYPE}", text)
    return {name: Type(dtype, split(dims)) for name, dtype, dims in found if dtype in BYTES}


def results(text: str) -> list[Type]:
    """Of a signature, those that are written and no views."""
    found = re.findall(rf"{TYPE}(?: strides=\[[^\]]*\])?((?: \w+)*)(?:,|$)", " ".join(text.split()))
    return [Type(d, split(s)) for d, s, more in found if "view of" not in more]


def letters(texts: list[str]) -> dict[Expr, Expr]:
    """A, B, C for the sizes of the graphs, in the order in which their parameters have them."""
    shapes = [d for t in texts for p in binders(t.partition(") -> (")[0]).values() for d in p.shape]
    names = dict.fromkeys(n for d in shapes for n in re.findall(NAME, d))
    return {size(name): size(chr(65 + k)) for k, name in enumerate(names)}


def traffic(texts: list[str]) -> Traffic:
    """Of the texts of graphs at the loops stage, together; the first one's sizes come first."""
    each, names = [Reader(text).found for text in texts], letters(texts)
    return Traffic(
        sum(t.kernels for t in each),
        [call for t in each for call in t.calls],
        *(
            sympy.expand(sum(part).subs(names))
            for part in zip(*((t.bytes, t.least, t.stored) for t in each), strict=True)
        ),
    )


class Reader:
    """Reads a graph line by line: a let, a loop's head or a brace each."""

    def __init__(self, text: str) -> None:
        head, _, rest = text.partition(") -> (")
        signature, _, body = rest.partition(") {\n")
        self.types = binders(head)
        self.found = Traffic(least=sum((t.bytes for t in [*self.types.values(), *results(signature)]), ZERO))
        self.blocks: list[str] = []  # what is open: "kernel", or the index of a loop
        self.extents: dict[str, str] = {}  # of the loops
        self.depends: dict[str, set[str]] = {}  # scalars: the loops that they change with
        self.places: dict[tuple[str, str], dict[str, Expr]] = {}  # of this phase: what is visited
        for line in without_short_rows(body).splitlines():
            self.line(re.sub(r"\s+@.*", "", line).strip())

    def line(self, words: str) -> None:
        left, _, right = words.removeprefix("let ").partition(" = ")
        loop = re.search(rf"(?:for|reduce \w+) ({NAME}) in (.+?)(?: [a-z_]+(?:=\d+)?)* \{{$", words)
        if words == "}":
            self.close()
        elif nest := re.match(rf"for (.* in .*): ({NAME}\[.*\]) \+?= (.*)", words):
            self.nest(*nest.groups())
        elif loop:
            self.extents[loop[1]] = loop[2]
            self.scalar(left, words)
            self.blocks.append(loop[1])
        elif right == "kernel {":
            self.found.kernels += 1
            self.types |= binders(left)
            self.blocks.append("kernel")
        elif access := re.search(rf"\b(load|store|update \w+) ({NAME})\[([^\]]*)\]", words):
            self.access(*access.groups())
            self.scalar(left, words)
        elif words.startswith("let "):
            self.let(left, right)

    def nest(self, loops: str, stored: str, loaded: str) -> None:
        """Loops in one line, as one call of a microkernel runs them."""
        heads = split(loops)
        for head in heads:
            index, _, extent = head.partition(" in ")
            self.extents[index] = extent
            self.scalar("", head)
            self.blocks.append(index)
        for how, text in (("load", loaded), ("store", stored)):
            for name, index in re.findall(rf"({NAME})\[([^\]]*)\]", text):
                self.access(how, name, index)
        for _ in heads:
            self.close()

    def close(self) -> None:
        """A phase ends with the loop that stands in the kernel's own block."""
        if not self.blocks:
            return
        self.blocks.pop()
        if len(self.blocks) == 1:
            for (name, way), visited in self.places.items():
                whole = self.types[name].bytes
                moved = smaller(sum(visited.values(), ZERO), whole)
                self.found.bytes += moved
                self.found.stored += moved if way == "store" else ZERO
            self.places.clear()

    def let(self, left: str, right: str) -> None:
        op, _, rest = right.partition(" ")
        made = binders(left)
        if op == "buffer":
            self.types |= {n: t for n, t in made.items() if self.blocks == ["kernel"] and t.shape}
        elif self.blocks:
            self.scalar(left, right)
        elif op == "call":
            self.types |= made
            taken = set(re.findall(NAME, re.sub(r"\w+=.*", "", rest)))
            self.found.calls.append(re.search(r'target="([^"]*)"', rest)[1])
            self.found.bytes += sum(self.types[n].bytes for n in taken | set(made))
        elif op in VIEWS:
            repeated = op == "expand"
            source = rest.split()[0]
            self.types |= {n: self.types[source] if repeated else t for n, t in made.items()}

    def scalar(self, left: str, right: str) -> None:
        """What is bound here changes with the loops around it that its operands change with."""
        loops = self.loops_of(right) & set(self.blocks)
        self.depends |= dict.fromkeys(re.findall(rf"({NAME})(?=:|\])", left), loops)

    def loops_of(self, text: str) -> set[str]:
        names = set(re.findall(NAME, text))
        return (names & self.extents.keys()).union(*(self.depends.get(n, set()) for n in names))

    def access(self, how: str, name: str, index: str) -> None:
        if name not in self.types:
            return
        loops = self.loops_of(index)
        extents = [self.extents[k] for k in sorted(loops)]
        # The last block of a long row is shorter: together they are the row, and so is what they visit.
        inexact = any(self.loops_of(e) for e in extents)
        one = BYTES[self.types[name].dtype]
        visited = self.types[name].bytes if inexact else sympy.Mul(one, *map(dim, extents))
        place = re.sub(NAME, lambda n: self.extents.get(n[0], n[0]), index)
        for way in ("load", "store") if how.startswith("update") else (how,):
            self.places.setdefault((name, way), {})[place] = visited
