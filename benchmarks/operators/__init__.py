"""Single operators beside eager: which of them are slower when they stand alone.

A call of a compiled function costs what Dynamo's guards and dlc's call cost, whatever it computes. So
beside each operator a nearly empty function takes turns, with as many arguments, compiled by the same
peer: it adds one to its first argument, of one element. What it takes longer than in eager is taken
off. Of gradients it is a sum of the arguments, and their gradients.
"""

import functools
from collections.abc import Callable, Iterable
from statistics import geometric_mean
from typing import Any

import torch
import torch._dynamo
from rich.table import Table
from torch import Tensor
from tqdm import tqdm

from benchmarks.cases.case import Case
from benchmarks.kernels import gradients, through
from benchmarks.measure import Timing, interleaved, seconds
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


def empty(*given: Tensor) -> Tensor:
    return given[0] + 1


def empty_of_gradients(*given: Tensor) -> Tensor:
    total = given[0]
    for x in given[1:]:
        total = total + x
    return total


def floor_calls(case: Case, inputs: tuple[Tensor, ...], peers: list[str]) -> dict[str, Callable[[], Any]]:
    """Calls of the nearly empty function; arguments that have gradients have them there too."""
    call = empty_of_gradients if case.train else empty
    given = tuple(torch.ones(1).requires_grad_(x.requires_grad) for x in inputs)
    way = functools.partial(gradients, seed=torch.ones(1)) if case.train else None
    return {peer: ready(peer, call, given, way) for peer in peers}


def beyond(call: Timing, eager: Timing) -> Timing:
    """What a nearly empty call takes longer than in eager."""
    low, middle, high = (max(t - eager.median, 0.0) for t in (call.low, call.median, call.high))
    return Timing(low, middle, high, call.turns)


def row(case: Case, size: str, n: int, peers: list[str], budget: float) -> Row:
    inputs = case.arguments(n)
    torch._dynamo.reset()
    calls = {peer: ready(peer, case.call, inputs, through(case, inputs)) for peer in peers}
    floors = floor_calls(case, inputs, peers)
    watch = Watch()
    timings = interleaved(calls | {f"floor {peer}": call for peer, call in floors.items()}, budget)
    held = {peer: timings.pop(f"floor {peer}") for peer in floors}
    least = {peer: beyond(t, held["eager"]) for peer, t in held.items() if peer != "eager"}
    return Row(case.title, timings, size, least, disturbed=watch.busy())


def run(only: str, size: str, peers: list[str], budget: float) -> list[Row]:
    """A row of each case at each size. Eager is always among the peers, as all is held against it."""
    peers = available(dict.fromkeys(("eager", *peers)))
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
    """The peer's time over eager's, without what an empty call costs."""
    return row.net(peer) / row.net("eager")


def mark(row: Row) -> str:
    """Whether dlc is behind eager, and whether the quartiles of both are apart; what disturbed the row."""
    words = []
    if ratio(row, "dlc") > 1.0:
        apart = row.timings["dlc"].low - row.floors["dlc"].high > row.timings["eager"].high
        words = ["behind" if apart else "behind, within the spread"]
    return "; ".join([*words, *([row.disturbed] if row.disturbed else [])])


def means(rows: list[Row]) -> str:
    """Geometric means of dlc's time over eager's, of each size."""
    found = {size: [ratio(r, "dlc") for r in rows if r.size == size] for size in {r.size: 0 for r in rows}}
    return ", ".join(f"{size} {geometric_mean(ratios):.2f}" for size, ratios in found.items())


def table(rows: list[Row]) -> Table:
    """Slowest first, as times of eager's time."""
    where = machine()
    on = f"{where['processor']}, {where['isa']}, {where['threads']} threads"
    peers = [p for p in dict.fromkeys(p for r in rows for p in r.timings) if p != "eager"]
    busy = sum(bool(r.disturbed) for r in rows)
    state = f"; the machine was busy in {busy} of {len(rows)} rows" if busy else ""
    caption = "\u00d7: time over eager's, without what a nearly empty compiled call costs (in brackets)"
    table = Table(title=f"operators, {on}{state}", caption=f"{caption}\nmeans of dlc: {means(rows)}")
    for name in ("operator", "size"):
        table.add_column(name, no_wrap=True)
    for peer in ("eager", *peers):
        table.add_column(label(peer), justify="right", no_wrap=True)
    table.add_column("dlc beside eager", no_wrap=True)
    for r in sorted(rows, key=lambda r: -ratio(r, "dlc")):
        table.add_row(r.case, r.size, str(r.timings["eager"]), *(cell(r, p) for p in peers), mark(r))
    return table


def cell(row: Row, peer: str) -> str:
    floor = seconds(row.floors[peer].median) if row.floors[peer].median else "0"
    return f"{row.timings[peer]} ({floor}) {ratio(row, peer):5.2f}\u00d7"
