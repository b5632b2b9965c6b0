"""The kernels stage as data: what a structure test counts, and the rules that every kernel keeps."""

import re
from collections import Counter
from dataclasses import dataclass, field

from ..dlc_opt import opt

REDUCTIONS = {"sum", "prod", "amax", "amin", "any", "all", "argmax", "argmin"}
VIEWS = {"expand", "reshape", "permute", "slice", "flip", "as_strided"}

Shape = tuple[str, ...]


@dataclass
class Let:
    op: str
    args: list[str]
    axes: list[int]


@dataclass
class Kernel:
    lets: dict[str, Let] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    rets: list[str] = field(default_factory=list)

    def ops(self) -> list[str]:
        return [let.op for let in self.lets.values()]


@dataclass
class Program:
    text: str
    kernels: list[Kernel]
    calls: int
    shapes: dict[str, Shape]


def split(dims: str) -> Shape:
    """The dims of a list; those with calls such as max(a, b) hold commas of their own."""
    parts = re.split(r",\s*(?![^()]*\))", dims)
    return tuple(part.strip() for part in parts if part.strip())


def binders(text: str) -> dict[str, Shape]:
    found = re.findall(r"([A-Za-z_]\w*): \w+(?:\[([^\]]*)\])?", text)
    return {name: split(dims) for name, dims in found}


def parse(text: str) -> Program:
    """Reads what dlc-opt prints: one let a line, bodies indented."""
    header, _, body = text.partition(") -> (")
    program = Program(text, [], 0, binders(header))
    kernel: Kernel | None = None
    for line in body.splitlines():
        words = line.strip()
        if words.startswith("ret ") and kernel:
            kernel.rets = [v.strip() for v in words[4:].split(",")]
        elif words.startswith("}"):
            kernel = None
        elif words.startswith("let "):
            left, _, right = words[4:].partition(" = ")
            bound = binders(left)
            program.shapes |= bound
            op = right.split()[0]
            program.calls += op == "call"
            if op == "kernel":
                kernel = Kernel(shapes=program.shapes)
                program.kernels.append(kernel)
            elif kernel:
                axes = re.search(r" axes=\[([^\]]*)\]", right)
                kernel.lets[next(iter(bound))] = Let(
                    op,
                    re.findall(r"[A-Za-z_]\w*", re.sub(r"\w+=.*|@.*", "", right[len(op) :])),
                    [int(k) for k in axes.group(1).split(",")] if axes else [],
                )
            else:
                assert op in VIEWS | {"call", "size"}, f"{op} stands at the top level"
    return program


def compile(text: str) -> Program:
    return parse(opt(text, "--pipeline"))


def long(shape: Shape) -> Counter[str]:
    return Counter(dim for dim in shape if dim != "1")


def root(kernel: Kernel, name: str) -> str:
    while name in kernel.lets and kernel.lets[name].op in VIEWS:
        name = kernel.lets[name].args[0]
    return name


def made_of(kernel: Kernel, names: list[str]) -> set[str]:
    """The names, and what their values are made of in the kernel."""
    found = set[str]()
    while names:
        name = names.pop()
        if name in kernel.lets and name not in found:
            found.add(name)
            names += kernel.lets[name].args
    return found


def check(kernel: Kernel) -> None:
    """What the fuse pass ensures of a kernel, see docs/fusion.md."""
    domains = set()
    joins = [name for name, let in kernel.lets.items() if let.op in ("cat", "pad")]
    parts = made_of(kernel, [arg for name in joins for arg in kernel.lets[name].args])
    for let in kernel.lets.values():
        if let.op in REDUCTIONS:
            shape = kernel.shapes[let.args[0]]
            reduced = tuple(dim for k, dim in enumerate(shape) if k in let.axes)
            whole, rows = long(shape), long(shape) - long(reduced)
            domains.add((frozenset(whole.items()), frozenset(rows.items())))
        if let.op in ("gather", "as_strided"):
            inner = kernel.lets.get(root(kernel, let.args[0]))
            looked_up = inner is kernel.lets.get(let.args[0]) and let.op == "gather"
            assert not inner or (looked_up and inner.op == "gather"), (
                "an operand is neither in memory nor looked up"
            )
    assert len(domains) <= 1, f"reductions over different domains: {domains}"
    cut = [name for name in joins if name not in parts or kernel.lets[name].op == "pad"]
    assert len(cut) <= (0 if domains else 1), f"{cut} in one kernel"
    if not domains:
        shape = long(kernel.shapes[kernel.rets[0]])
        domains = {(frozenset(shape.items()),)}
    allowed = next(iter(domains))
    for name in kernel.rets:
        have = frozenset(long(kernel.shapes[name]).items())
        assert have in allowed, f"result {name} lies outside of the domain"


def without_short_rows(text: str) -> str:
    """The loops with the `else` alone of each choice, as if its kernel had no other phases."""
    return re.sub(
        r"^    if .*?^    \} else \{\n(.*?)^    \}\n",
        lambda choice: re.sub(r"^  ", "", choice[1], flags=re.MULTILINE),
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
