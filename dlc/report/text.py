"""A report as text: plain, or for rich."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .model import Graph, Report, Step, Stop, count, duration, number, rate, share_text, size
from .source import letter, sources

_MOST = 40  # steps of a graph that are printed


def heading(report: Report, k: int) -> str:
    """The line of a graph, after its letter."""
    line, mark = graph_line(report.graphs[k]), letter(report, k)
    return f"{mark}: {line}" if mark else line


def letters(report: Report) -> Iterator[str]:
    """What the names of kernels mean beside lines of the source, if there are several graphs."""
    steps = [step for graph in report.graphs for step in graph.steps]
    if len(report.graphs) > 1 and any(step.kind == "kernel" and step.places for step in steps):
        yield "beside lines of the source, Ak0 is kernel k0 of graph A"


def stop_line(stop: Stop) -> str:
    """The breaks of one place in a line."""
    first = stop.first
    where = f"{first.place}: `{first.place.text}`: " if first.place else ""
    what = "graph break" if first.kind != "skipped" else f"{first.function} runs in Python"
    so = f"; so {stop.skipped} runs in Python" if stop.skipped and first.kind != "skipped" else ""
    times = f" ({stop.times} times)" if stop.times > 1 else ""
    return f"{where}{what}: {first.reason}{so}" + (f". Fix: {first.fix}" if first.fix else "") + times


def break_lines(report: Report) -> Iterator[str]:
    """Each once, with the number that its mark beside the source has."""
    for k, stop in enumerate(report.stops, 1):
        yield f"break {k}: {stop_line(stop)}"


def graph_line(graph: Graph) -> str:
    """The graph in a line."""
    where = f" of {graph.function}" + (f" ({graph.place})" if graph.place else "") if graph.function else ""
    if graph.error is not None:
        return f"{graph.kind} graph{where}: runs eagerly: {graph.error}"
    stages = ", ".join(f"{name} {1e3 * t:.1f}" for name, t in graph.seconds.items())
    counts = f"{count(graph.kernels, 'kernel')}, {count(len(graph.calls), 'call')}"
    text = f"{graph.kind} graph{where}: {counts}; compiled in {1e3 * graph.compile_seconds:.1f} ms ({stages})"
    if graph.call_seconds is not None:
        text += f"; a call {duration(graph.call_seconds)} (the fastest of {graph.measured})"
        if graph.predicted:
            text += f", predicted {duration(graph.predicted)}"
    return text


HEAD = (
    "step", "operators", "at", "bytes", "operations", "time", "predicted", "rate", "roofline", "limit", "by",
    "why apart",
)  # fmt: skip
NUMBERS = range(3, 9)  # columns that are aligned to the right


def row(step: Step, report: Report) -> tuple[str, ...]:
    """The step as a row of a table, under HEAD."""
    by = {"kernel": step.tier, "library": "library", "eager": "eager", "copy": "copy"}[step.kind]
    if step.kind == "kernel" and step.product:
        by = f"{step.product}, {step.tier}" if step.tier else step.product
    operators = step.operators if step.kind == "kernel" else ()
    more = f" + {len(operators) - 5} more" if len(operators) > 5 else ""
    places = dict.fromkeys(str(place) for place in step.places)
    return (
        step.name,
        " + ".join(operators[:5]) + more,
        next(iter(places), "") + (f" +{len(places) - 1}" if len(places) > 1 else ""),
        size(step.bytes) if step.bytes else "",
        number(step.operations) if step.operations else "",
        duration(step.seconds) if step.seconds else "",
        duration(step.predicted) if step.predicted else "",
        rate(step),
        share_text(step, report.limits),
        step.limit,
        by,
        step.note,
    )


def _columns(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        yield (
            "  "
            + "  ".join(
                cell.rjust(width) if k in NUMBERS else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ).rstrip()
        )


def memory_lines(graph: Graph) -> Iterator[str]:
    if graph.memory:
        _, most, holders = graph.peak()
        held = ", ".join(f"{held.what} {size(held.bytes)}" for held in holders[:3])
        more = f" and {count(len(holders) - 3, 'more')}".replace("mores", "more") if len(holders) > 3 else ""
        yield f"memory: at most {size(most)} beside inputs, held by {held}{more}"
    yield from taken_lines(graph)


def taken_lines(graph: Graph) -> Iterator[str]:
    """What a call takes from the system."""
    if graph.workspace:
        yield f"workspace: {size(graph.workspace)}, taken once for a call"
    if graph.taken.get("given"):
        yield f"peak: {size(graph.taken['peak'])} with the workspace and with saved values"
    elif graph.taken:
        yield f"peak: {size(graph.taken['peak'])} with the workspace"
    if graph.taken.get("inside"):
        most = size(graph.taken["inside"])
        yield f"inside of a call: at most {most} of the library's, which count in the peak"


def _graph(report: Report, k: int) -> Iterator[str]:
    graph = report.graphs[k]
    yield heading(report, k)
    for note in graph.notes():
        yield f"  {note}"
    if graph.steps:
        yield from _columns([HEAD, *(row(step, report) for step in graph.steps[:_MOST])])
        if len(graph.steps) > _MOST:
            yield f"  and {count(len(graph.steps) - _MOST, 'step')} more: as_dict(), or save() to a page"
    for line in memory_lines(graph):
        yield f"  {line}"


def _source(report: Report) -> Iterator[str]:
    for file, shown in sources(report):
        yield file
        for line in shown:
            said = "   # " + "; ".join(text for _, text in line.marks) if line.marks else ""
            yield f"  {line.number:5} {line.text}{said}" if line.number else "    ..."


def nothing(report: Report) -> Iterator[str]:
    """Why there is no graph."""
    if report.graphs or report.breaks:
        return
    if not report.functions:
        yield 'nothing that ran was compiled: torch.compile(fn, backend="dlc") and a call do that'
    for place in report.functions:
        yield (
            f"{place}: nothing of the function was compiled: it computes with no tensor, or Dynamo leaves "
            'it to Python (TORCH_LOGS="dynamo" says why)'
        )


def doubts(report: Report) -> Iterator[str]:
    """What is to be said of times that are not to be relied on."""
    if report.disturbed:
        yield (
            f"disturbed: {report.disturbed} while this was measured. Times are longer than they need be, and "
            "no shares are printed; measure again on a quiet machine"
        )
    elif report.machine and report.machine.disturbed and report.graphs:
        yield (
            "no shares are printed: the limits of this machine were measured while other programs ran. The "
            "next process that asks on a quiet machine measures them again"
        )
    if report.beyond:
        names = ", ".join(step.name for step in report.beyond)
        yield (
            f"not believed: {names} would be faster than this processor computes, so no share is printed: "
            "please report it"
        )


def lines(report: Report) -> Iterator[str]:
    """All of it."""
    yield report.headline()
    yield from nothing(report)
    yield from break_lines(report)
    for k in range(len(report.graphs)):
        yield ""
        yield from _graph(report, k)
    source = list(_source(report))
    if source:
        yield ""
        yield from letters(report)
        yield from source
    if report.machine:
        yield ""
        yield f"machine: {report.machine}"
    yield from doubts(report)
    if report.failure:
        yield report.failure


_WIDE = 150  # characters of a terminal that has room for all columns
_NARROW = (0, 1, 2, 5, 6, 8, 10)  # the columns that any has


def rich_parts(report: Report, width: int) -> list[Any]:
    """The same for rich: tables, and the source in colour."""
    from rich.table import Table
    from rich.text import Text

    colours = {"kernel": "green", "library": "blue", "eager": "yellow", "copy": "cyan", "break": "bold red"}
    parts: list[Any] = [Text(report.headline(), style="bold"), *map(Text, nothing(report))]
    parts += [Text(line, style="red") for line in break_lines(report)]
    for which, graph in enumerate(report.graphs):
        parts += [
            Text(""),
            Text(heading(report, which), style="bold"),
            *(Text(f"  {note}") for note in graph.notes()),
        ]
        table = Table(box=None, pad_edge=False)
        columns = range(len(HEAD)) if width >= _WIDE else _NARROW
        for k in columns:
            table.add_column(HEAD[k], justify="right" if k in NUMBERS else "left", no_wrap=3 <= k <= 10)
        for step in graph.steps[:_MOST]:
            cells = row(step, report)
            table.add_row(*(Text(cells[k]) for k in columns), style=colours[step.kind])
        parts += [table] if graph.steps else []
        parts += [Text(f"  {line}") for line in memory_lines(graph)]
    for file, shown in sources(report):
        parts += [Text(""), Text(file, style="bold")]
        for line in shown:
            text = Text(f"  {line.number:5} {line.text}" if line.number else "    ...", style="dim")
            if line.marks:
                text = Text(f"  {line.number:5} {line.text}   ")
                for kind, said in line.marks:
                    text.append(f"# {said} ", style=colours[kind])
            parts.append(text)
    parts += [Text(""), Text(f"machine: {report.machine}")] if report.machine else []
    parts += [Text(line, style="yellow") for line in doubts(report)]
    parts += [Text(report.failure, style="yellow")] if report.failure else []
    return parts


# ---- two reports ----


def _key(step: Step) -> tuple[str, tuple[str, ...]]:
    return step.kind, step.operators


def _change(old: float, new: float, show: Any) -> str:
    return f"{show(old)} -> {show(new)}" + (f" ({new / old:.2f} times)" if old else "")


def difference(new: Report, old: Report) -> str:
    """What differs, in lines; steps are compared by their operators."""
    said = [f"before: {old.headline()}", f"after:  {new.headline()}"]
    for k in range(max(len(new.graphs), len(old.graphs))):
        if k >= len(old.graphs) or k >= len(new.graphs):
            graph, sign = (new.graphs[k], "+") if k >= len(old.graphs) else (old.graphs[k], "-")
            said.append(f"{sign} {graph_line(graph)}")
            continue
        a, b = old.graphs[k], new.graphs[k]
        if a.call_seconds and b.call_seconds:
            said.append(f"graph {k}: a call {_change(a.call_seconds, b.call_seconds, duration)}")
        if a.bytes != b.bytes:
            said.append(f"graph {k}: bytes {_change(a.bytes, b.bytes, size)}")
        left = list(a.steps)
        for step in b.steps:
            same = next((other for other in left if _key(other) == _key(step)), None)
            if same is None:
                said.append(f"+ {step.label}: {duration(step.seconds or 0)}")
                continue
            left.remove(same)
            if same.tier != step.tier or same.product != step.product or same.bytes != step.bytes:
                facts = f"{same.product or same.tier} -> {step.product or step.tier}"
                facts += f", {size(same.bytes)} -> {size(step.bytes)}"
                said.append(
                    f"~ {step.label}: {facts}, {_change(same.seconds or 0, step.seconds or 0, duration)}"
                )
        said += [f"- {step.label}: {duration(step.seconds or 0)}" for step in left]
    said += [f"+ {stop_line(stop)}" for stop in new.stops if stop not in old.stops]
    said += [f"- {stop_line(stop)}" for stop in old.stops if stop not in new.stops]
    return "\n".join(said)
