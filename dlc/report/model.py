"""What a report says, without how it is shown, which text.py, page.py and perfetto.py do."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from ..memory import step_peak
from .machine import Machine
from .texts import TEXTS

#: A limit and a kernel are measured at other times, when the clock of the processor may be another one.
BEYOND = 1.03


def count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def file_name(path: str) -> str:
    """As the user knows it: a cell is in a file that Jupyter has made, a library somewhere in a long path."""
    if "/ipykernel_" in path or path.startswith("<cell "):
        return "cell"
    numbered = re.match(r"<ipython-input-(\d+)-", path)
    return f"cell {numbered[1]}" if numbered else path.rpartition("/site-packages/")[2]


_MAGIC = re.compile(r"get_ipython\(\)\.(run_line_magic|system|getoutput)\((.*)\)$")


def own_line(text: str) -> str:
    """The line as the user wrote it: IPython makes a call of `%magic words` and of `!command`."""
    found = _MAGIC.search(text)
    if not found:
        return text
    try:
        words = ast.literal_eval(f"({found[2]},)")
    except (SyntaxError, ValueError):
        return text
    sign = {"run_line_magic": "%", "system": "!", "getoutput": "!!"}[found[1]]
    return text[: found.start()] + sign + " ".join(filter(None, map(str, words)))


@dataclasses.dataclass(frozen=True)
class Place:
    """A line of the user's."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{file_name(self.file).rsplit('/', 1)[-1]}:{self.line}"


@dataclasses.dataclass(frozen=True)
class Break:
    """Where Dynamo ended a graph, or left a whole function to Python."""

    kind: str  # "graph break", or "skipped": the whole function runs as Python runs it
    function: str
    reason: str
    fix: str  # Dynamo's first hint, "" where it has none
    place: Place | None


@dataclasses.dataclass(frozen=True)
class Stop:
    """The breaks at one place for one reason, which are said once."""

    first: Break
    times: int  # that Dynamo met it
    skipped: str  # the function that runs in Python because of it; "" if only a graph ends


@dataclasses.dataclass(frozen=True)
class Step:
    """A kernel, or an operator that is called.  Seconds are the least in any call that was measured."""

    name: str  # "k0", or the operator as the user knows it
    kind: str  # "kernel", "library", "eager" or "copy": by the plan itself
    operators: tuple[str, ...]
    places: tuple[Place, ...]
    seconds: float | None  # None: no call was measured
    bytes: int  # of its operands and results, each counted once
    operations: int  # on elements; a term of a product counts as two
    wide: bool  # an operand or a result is f64, of which the processor computes half as many
    tier: str  # of a kernel: "tcc", "gcc" or "tuned"; else ""
    product: str  # who computes its products: "own", "frozen panels", "library"; "" without one
    note: str  # of a kernel: why it is not one with the step before; of a call: why it is one
    texts: dict[str, str] = dataclasses.field(
        default_factory=dict
    )  # of a kernel: "kernels", "loops", "cc", "tcc", "schedule"
    symbols: tuple[str, ...] = ()  # of a kernel: its functions in machine code
    narrow: bool = False  # the library may compute its operands by instructions whose peak is not known
    predicted: float | None = None  # seconds, from its loops and what the machine was measured to do
    predicted_bytes: int = 0  # that it moves between itself and caches or memory
    limit: str = ""  # what the prediction sits at: "memory", "arithmetic" or "launch"

    @property
    def label(self) -> str:
        return f"{self.name}: {' + '.join(self.operators)}" if self.kind == "kernel" else self.name

    def share(self, machine: Machine | None) -> float | None:
        """Of what the machine allows it: 1.0 is as fast as memory, the processor or a start lets it be."""
        if not self.seconds or machine is None or (self.product and self.narrow):
            return None
        moving = self.bytes / machine.bandwidth
        return max(moving, self._computing(machine), machine.launch) / self.seconds

    def moves(self, machine: Machine | None) -> bool:
        """Is it memory that bounds it, and not the processor?"""
        return machine is not None and self.bytes / machine.bandwidth > self._computing(machine)

    def _computing(self, machine: Machine) -> float:
        """The least seconds that its operations take."""
        return self.operations / machine.peak(self.wide)

    def is_beyond(self, machine: Machine | None) -> bool:
        """Did it compute faster than the processor can?  Then it is counted or measured wrongly."""
        if not self.seconds or machine is None or (self.product and self.narrow):
            return False
        return self._computing(machine) > BEYOND * self.seconds


@dataclasses.dataclass(frozen=True)
class Held:
    """A piece of memory that a call makes: alive from step `first` to `last` of the plan."""

    what: str
    bytes: int
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Graph:
    """One compiled graph.  Texts are "" when the graph was not compiled; times are seconds."""

    kind: str
    kernels: int
    calls: list[tuple[str, str | None, str | None]]
    passes: list[tuple[str, float, int]]
    seconds: dict[str, float]
    texts: dict[str, str]
    error: str | None
    indirect: str | None = None  # why the graph went through AOTAutograd
    partition: dict[str, Any] = dataclasses.field(default_factory=dict)  # of a forward, see dlc.partition
    tuned: list[str] = dataclasses.field(
        default_factory=list
    )  # of each kernel: what was found, and behind that line its schedule
    prepared: tuple[int, int] = (0, 0)  # values made of frozen parameters: how many, their bytes
    weights: list[Any] = dataclasses.field(default_factory=list)  # dlc.weights.Weight: what became of them
    function: str = ""  # the user's, that it is of
    place: Place | None = None  # where that begins
    steps: list[Step] = dataclasses.field(default_factory=list)
    memory: list[Held] = dataclasses.field(default_factory=list)
    workspace: int = 0  # bytes for intermediate results, taken once for a call
    taken: dict[str, Any] = dataclasses.field(default_factory=dict)  # see dlc.memory
    points: int = 0  # steps of the plan, of which memory is a function
    call_seconds: float | None = None  # of the fastest call
    measured: int = 0  # calls
    keys: tuple[str, ...] = ()  # of its kernels in the cache on disk,
    cache: str | None = None  # which is in this folder; None: the default one, "": there is none

    @classmethod
    def from_report(cls, report: dict[str, Any]) -> Graph:
        stages = ("walk", "fusion", "codegen")
        return cls(
            kind=report["kind"],
            kernels=report.get("kernel_count", 0),
            calls=report.get("calls", []),
            passes=report.get("passes", []),
            seconds={stage: report.get(f"{stage}_seconds", 0.0) for stage in stages},
            texts={name: report.get(name, "") for name in TEXTS},
            error=report.get("error"),
            indirect=report.get("indirect"),
            partition=report.get("partition") or {},
            tuned=report.get("tuned", []),
            prepared=report.get("prepared", (0, 0)),
            weights=report.get("weights", []),
        )

    @property
    def compile_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def bytes(self) -> int:
        return sum(step.bytes for step in self.steps)

    @property
    def predicted(self) -> float | None:
        """Seconds of a call, as its steps predict it; None where one of them has no prediction."""
        times = [step.predicted for step in self.steps]
        return sum(filter(None, times)) if times and None not in times else None

    def curve(self) -> list[int]:
        """The bytes that are alive at each step of the plan."""
        alive = [0] * (self.points + 1)
        for held in self.memory:
            for k in range(held.first, min(held.last, self.points) + 1):
                alive[k] += held.bytes
        return alive

    def peak(self) -> tuple[int, int, list[Held]]:
        """The step with the most bytes alive, how many, and what holds them, largest first."""
        curve = self.curve()
        at = max(range(len(curve)), key=curve.__getitem__)
        holders = [held for held in self.memory if held.first <= at <= held.last]
        return at, curve[at], sorted(holders, key=lambda held: -held.bytes)

    def notes(self) -> Iterator[str]:
        """What is to be said of the graph besides its steps."""
        if self.indirect:
            yield f"through AOTAutograd: {self.indirect}"
        if "error" in self.partition:
            yield f"partitioned by functorch: {self.partition['error']}"
        elif self.partition:
            p = self.partition
            saved = f"saves {p['bytes']:,} bytes for the backward ({count(p['saved'], 'tensor')})"
            yield f"{saved}; computed again: {count(p['recomputed'], 'value')}"
        if self.prepared[0]:
            n, size = self.prepared
            yield f"keeps {size:,} bytes made of frozen parameters ({count(n, 'value')})"
        for weight in self.weights:
            yield f"weight {weight}"
        for line in self.tuned:
            yield f"tuned {line.splitlines()[0]}"


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of a function: its graphs, in the order in which they were compiled, and where it is none.

    Printed, it is text; in a notebook a page; save() writes the page, to_perfetto() a timeline, and
    report - other says what differs.  as_dict() has all of it as plain values.
    """

    graphs: list[Graph]
    breaks: list[Break] = dataclasses.field(default_factory=list)
    machine: Machine | None = None
    failure: str | None = None  # of the C compiler
    functions: list[Place] = dataclasses.field(default_factory=list)  # what Dynamo looked at
    disturbed: str = ""  # what disturbed the measurement, in words

    @property
    def stops(self) -> list[Stop]:
        """The breaks, those of one place and reason together."""
        found: dict[tuple[Place | None, str], list[Break]] = {}
        for stop in self.breaks:
            found.setdefault((stop.place, stop.reason), []).append(stop)
        return [
            Stop(
                each[0],
                max(1, sum(stop.kind != "skipped" for stop in each)),
                next((stop.function for stop in each if stop.kind == "skipped"), ""),
            )
            for each in found.values()
        ]

    @property
    def limits(self) -> Machine | None:
        """What steps are compared with; None where a share would say nothing."""
        return None if self.disturbed or (self.machine and self.machine.disturbed) else self.machine

    @property
    def beyond(self) -> list[Step]:
        """The steps that computed faster than the machine can, which are counted or measured wrongly."""
        return [step for graph in self.graphs for step in graph.steps if step.is_beyond(self.limits)]

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @property
    def step_peak(self) -> int | None:
        """The most bytes at once in a step of training, beside inputs; None: it is no two graphs."""
        taken = {kind: [g.taken for g in self.graphs if g.kind == kind] for kind in ("forward", "backward")}
        forwards, backwards = taken["forward"], taken["backward"]
        if len(forwards) != 1 or len(backwards) != 1 or not forwards[0] or not backwards[0]:
            return None
        return step_peak(forwards[0], backwards[0], backwards[0]["tangents"])

    @property
    def compiled(self) -> bool:
        """Does dlc run any graph?"""
        return any(graph.error is None for graph in self.graphs)

    def headline(self) -> str:
        """The whole of it in a line."""
        graphs = [graph for graph in self.graphs if graph.error is None]
        if not graphs:
            return "dlc compiled nothing: " + (
                "every graph runs eagerly" if self.graphs else "no graph reached it"
            )
        steps = [step for graph in graphs for step in graph.steps]
        products = sum(bool(step.product) for step in steps)
        parts = [count(sum(graph.kernels for graph in graphs), "kernel"), count(products, "product")]
        others = sum(step.kind not in ("kernel", "copy") and not step.product for step in steps)
        copies = sum(step.kind == "copy" for step in steps)
        if others:
            parts.append(count(others, "other call"))
        if copies:
            parts.append(f"{copies} {'copies' if copies > 1 else 'copy'}")
        if all_bytes := sum(graph.bytes for graph in graphs):  # none: a program for any size was not called
            parts.append(f"{size(all_bytes)} moved")
        times = [graph.call_seconds for graph in graphs if graph.call_seconds]
        if times:
            parts.append(f"{duration(sum(times))} measured")
            parts += ["on a busy machine"] if self.disturbed else self._loops(steps)
        parts.append(f"compiled in {duration(sum(graph.compile_seconds for graph in graphs))}")
        if self.breaks:
            parts.append(count(len(self.stops), "graph break"))
        return ", ".join(parts)

    def _loops(self, steps: list[Step]) -> list[str]:
        """How near its loops are to copy bandwidth; nothing where starting them takes most of the time."""
        loops = [step for step in steps if step.kind == "kernel" and not step.product]
        machine, taken = self.limits, sum(step.seconds or 0 for step in loops)
        if machine is None or not taken:
            return []
        moving = sum(step.bytes for step in loops) / machine.bandwidth
        if moving < len(loops) * machine.launch:
            return []
        share = moving / taken
        of = f"{100 * share:.0f} % of copy bandwidth" if share <= 1 else "more than copy bandwidth (in cache)"
        return [f"its loops at {of}"]

    def save(self, path: str) -> None:
        """Writes the page, which needs nothing but itself."""
        from .page import document

        with open(path, "w", encoding="utf-8") as file:
            file.write(document(self))

    def to_perfetto(self, path: str) -> None:
        """Writes compile and call as a timeline, for ui.perfetto.dev or chrome://tracing."""
        from .perfetto import write

        write(self, path)

    def __sub__(self, other: Report) -> str:
        """What differs in this report from an older one, as text."""
        if not isinstance(other, Report):
            return NotImplemented
        from .text import difference

        return difference(self, other)

    def __str__(self) -> str:
        from .text import lines

        return "\n".join(lines(self))

    __repr__ = __str__

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from .text import rich_parts

        return rich_parts(self, options.max_width)

    def _repr_html_(self) -> str:
        from .page import fragment

        return fragment(self)


def duration(seconds: float) -> str:
    for unit, each in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= each:
            return f"{seconds / each:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def size(n: float) -> str:
    for unit, each in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= each:
            return f"{n / each:.3g} {unit}"
    return count(round(n), "byte")


def number(n: int) -> str:
    """With three digits: 33.6 M."""
    for unit, each in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= each:
            return f"{n / each:.3g} {unit}"
    return str(n)


def rate(step: Step) -> str:
    """What the step achieves: GFLOP/s of a product, GB/s of what else moves memory."""
    if not step.seconds:
        return ""
    if step.product:
        return f"{step.operations / step.seconds / 1e9:.3g} GFLOP/s"
    return f"{step.bytes / step.seconds / 1e9:.3g} GB/s" if step.kind in ("kernel", "copy") else ""


def share_text(step: Step, machine: Machine | None) -> str:
    """The share that is printed; "" where there is none to believe."""
    share = step.share(machine)
    if share is None or (step.kind not in ("kernel", "copy") and not step.product):
        return ""
    if step.is_beyond(machine):
        return ""
    return "in cache" if share > 1 and step.moves(machine) else f"{100 * min(share, 1.0):.0f} %"
