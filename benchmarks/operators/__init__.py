"""Single operators beside eager: which of them are slower when they stand alone.

A call of a compiled function begins with Dynamo's guards, whatever it computes, and they leave caches and
branch predictors without the operator's code. An eager operator that is called again and again keeps
them: alone it takes a third of the time. So what dlc is held against is the operator behind the same
guards: `dynamo`, a backend that runs the operators of the graph as they are. From both is taken what the
guards alone cost: a function of the same arguments that looks at them and returns them, without a graph.
"""

from collections.abc import Iterable
from statistics import geometric_mean

import torch
import torch._dynamo
from rich.table import Table
from torch import Tensor
from tqdm import tqdm

from benchmarks.cases.case import Case
from benchmarks.kernels import through
from benchmarks.measure import interleaved, seconds
from benchmarks.operators import elements, layers, movement, reductions
from benchmarks.peers import available, label, ready
from benchmarks.report import Row, machine
from dlc.report.machine import Watch

CASES: tuple[Case, ...] = (*elements.CASES, *movement.CASES, *reductions.CASES, *layers.CASES)
SIZES = {"small": 1 << 10, "middle": 1 << 17, "large": 1 << 22}  # elements


def chosen(only: str) -> list[Case]:
    """Cases by their whole titles, or by parts of them; a comma stands between."""
    titles, wanted = {c.title for c in CASES}, only.split(",")
    return [c for c in CASES if any(w == c.title or (w not in titles and w in c.title) for w in wanted)]


def sizes(text: str) -> dict[str, int]:
    """`all`, names between commas, or numbers of elements."""
    return SIZES if text == "all" else {t: SIZES[t] if t in SIZES else int(t) for t in text.split(",")}


def guarded(*given: Tensor) -> tuple[Tensor, ...]:
    """Dynamo guards what is asked of its arguments; there is no graph to call."""
    for x in given:
        x.dim()
    return given


def row(case: Case, size: str, n: int, peers: list[str], budget: float) -> Row:
    inputs = case.arguments(n)
    torch._dynamo.reset()
    calls = {peer: ready(peer, case.call, inputs, through(case, inputs)) for peer in peers}
    watch = Watch()
    timings = interleaved(calls | {"guards": ready("dynamo", guarded, inputs)}, budget)
    guards = timings.pop("guards")
    floors = {peer: guards for peer in peers if peer != "eager"}
    return Row(case.title, timings, size, floors, disturbed=watch.busy())


def run(only: str, size: str, peers: list[str], budget: float) -> list[Row]:
    """A row of each case at each size. Dynamo is always among the peers, as all is held against it."""
    peers = available(dict.fromkeys(("eager", "dynamo", *peers)))
    jobs: Iterable[tuple[Case, str, int]] = [
        (case, name, n) for name, n in sizes(size).items() for case in chosen(only)
    ]
    rows = []
    with tqdm(jobs, disable=None, leave=False) as line:
        for case, name, n in line:
            line.set_description(f"{case.title}, {name}")
            rows.append(row(case, name, n, peers, budget))
    return rows


# ---- the table ----


def ratio(row: Row, peer: str) -> float:
    """The peer's time over that of eager's operators behind the same guards, both without the guards."""
    return row.net(peer) / row.net("dynamo")


def mark(row: Row) -> str:
    """Whether dlc is behind, and whether the quartiles of both are apart; what disturbed the row."""
    words = []
    if ratio(row, "dlc") > 1.0:
        apart = row.timings["dlc"].low > row.timings["dynamo"].high
        words = ["behind" if apart else "behind, within the spread"]
    return "; ".join([*words, *([row.disturbed] if row.disturbed else [])])


def means(rows: list[Row]) -> str:
    """Geometric means of what dlc is held against, of each size."""
    found = {size: [ratio(r, "dlc") for r in rows if r.size == size] for size in {r.size: 0 for r in rows}}
    return ", ".join(f"{size} {geometric_mean(ratios):.2f}" for size, ratios in found.items())


def table(rows: list[Row]) -> Table:
    """Slowest first."""
    where = machine()
    on = f"{where['processor']}, {where['isa']}, {where['threads']} threads"
    peers = [p for p in dict.fromkeys(p for r in rows for p in r.timings) if p != "eager"]
    busy = sum(bool(r.disturbed) for r in rows)
    state = f"; the machine was busy in {busy} of {len(rows)} rows" if busy else ""
    caption = "\u00d7: time over that of Dynamo alone, both without the guards (in brackets)"
    table = Table(title=f"operators, {on}{state}", caption=f"{caption}\nmeans of dlc: {means(rows)}")
    for name in ("operator", "size"):
        table.add_column(name, no_wrap=True)
    for peer in ("eager", *peers):
        table.add_column(label(peer), justify="right", no_wrap=True)
    table.add_column("dlc", no_wrap=True)
    for r in sorted(rows, key=lambda r: -ratio(r, "dlc")):
        table.add_row(r.case, r.size, str(r.timings["eager"]), *(cell(r, p) for p in peers), mark(r))
    return table


def cell(row: Row, peer: str) -> str:
    beside = f" {ratio(row, peer):5.2f}\u00d7" if peer != "dynamo" else ""
    return f"{row.timings[peer]} ({seconds(row.floors[peer].median)}){beside}"
