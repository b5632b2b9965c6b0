"""The user's source with a mark per line: what became of each."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Iterator

from .model import Report, file_name, own_line

_AROUND = 2  # lines of the source around those that have a mark
_GAP = 12  # lines without a mark that are left out


@dataclasses.dataclass
class Line:
    """A line of a file; number 0: lines are left out here."""

    number: int
    text: str
    marks: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # (kind, text)


def letter(report: Report, graph: int) -> str:
    """What tells the steps of the graph from those of others; "" where there is one graph."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[graph % 26] if len(report.graphs) > 1 else ""


def marks(report: Report) -> dict[str, dict[int, list[tuple[str, str]]]]:
    """By file and line: what is to be said there."""
    found: dict[str, dict[int, list[tuple[str, str]]]] = {}

    def add(file: str, line: int, kind: str, text: str) -> None:
        row = found.setdefault(file, {}).setdefault(line, [])
        if (kind, text) not in row:
            row.append((kind, text))

    for k, graph in enumerate(report.graphs):
        for step in graph.steps:
            for place in step.places:
                said = {
                    "kernel": letter(report, k) + step.name,
                    "library": f"library: {step.name}",
                    "eager": f"eager: {step.name}",
                    "copy": f"copied: {step.name}",
                }
                add(place.file, place.line, step.kind, said[step.kind])
        if graph.error and graph.place:
            add(graph.place.file, graph.place.line, "break", f"runs eagerly: {graph.error}")
    for k, stop in enumerate(report.stops, 1):
        if place := stop.first.place:
            add(place.file, place.line, "break", f"break {k}")
    return found


#: What a mark of each kind says of its line.
LEGEND = {
    "kernel": "computed by the kernel of that name",
    "library": "computed by PyTorch's library",
    "eager": "runs as in eager PyTorch",
    "copy": "copied in memory",
    "break": "Dynamo ended a graph here, or dlc refused it",
}
SAMPLES = {"kernel": "k0", "library": "library: ..", "eager": "eager: ..", "copy": "copied: .."}


def legend(report: Report) -> list[tuple[str, str, str]]:
    """Of the kinds of marks that occur: kind, what such a mark looks like, what it means."""
    kinds = {kind for rows in marks(report).values() for row in rows.values() for kind, _ in row}
    found = []
    for kind, meaning in LEGEND.items():
        if kind not in kinds:
            continue
        sample = SAMPLES.get(kind, "break 1")
        if kind == "kernel" and len(report.graphs) > 1:
            sample, meaning = "Ak0", "computed by kernel k0 of graph A, and so on"
        found.append((kind, sample, meaning))
    return found


def _is_empty(line: Line) -> bool:
    """A gap, a blank line, or a line that only calls a magic."""
    magic = line.text.startswith(("%", "!"))
    return not line.number or not (line.marks or (line.text.strip() and not magic))


def sources(report: Report) -> Iterator[tuple[str, list[Line]]]:
    """Each file that can be read, those with most marks first: the lines with marks and some around them."""
    rows = marks(report)
    for file in sorted(rows, key=lambda name: ("site-packages" in name, -len(rows[name]))):
        text = linecache.getlines(file)
        if not text:
            continue
        shown: list[Line] = []
        wanted = sorted(rows[file])
        for number in range(1, len(text) + 1):
            near = min(abs(number - line) for line in wanted)
            inside = wanted[0] <= number <= wanted[-1] and near <= _GAP // 2
            if near <= _AROUND or inside:
                shown.append(Line(number, own_line(text[number - 1].rstrip()), rows[file].get(number, [])))
            elif shown and shown[-1].number:
                shown.append(Line(0, ""))
        while shown and _is_empty(shown[-1]):
            shown.pop()
        while shown and _is_empty(shown[0]):
            shown.pop(0)
        yield file_name(file), shown
