"""A report as a timeline in the format of Chrome's traces, which ui.perfetto.dev opens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .model import Graph, Report


def _span(name: str, begin: float, seconds: float, thread: int, **args: Any) -> dict[str, Any]:
    event = {"name": name, "ph": "X", "ts": 1e6 * begin, "dur": 1e6 * seconds, "pid": 1, "tid": thread}
    return event | {"args": args}


def _graph(graph: Graph, k: int) -> Iterator[dict[str, Any]]:
    compile_thread, call_thread = 2 * k + 1, 2 * k + 2
    title = f"graph {k}: {graph.kind} {graph.function}".rstrip()
    for thread, what in ((compile_thread, "compile"), (call_thread, "a call")):
        yield {
            "name": "thread_name",
            "ph": "M",
            "pid": 1,
            "tid": thread,
            "args": {"name": f"{title}, {what}"},
        }
    at = 0.0
    for stage, seconds in graph.seconds.items():
        yield _span(stage, at, seconds, compile_thread)
        if stage == "fusion":
            inside = at
            for name, each, _ in graph.passes:
                yield _span(name, inside, each, compile_thread)
                inside += each
        at += seconds
    at = 0.0
    for step in graph.steps:
        if step.seconds:
            place = str(step.places[0]) if step.places else ""
            facts = {"bytes": step.bytes, "operations": step.operations, "tier": step.tier, "place": place}
            yield _span(
                step.label, at, step.seconds, call_thread, product=step.product, note=step.note, **facts
            )
            at += step.seconds


def events(report: Report) -> list[dict[str, Any]]:
    """Of all graphs; compile and call each begin at 0."""
    return [event for k, graph in enumerate(report.graphs) for event in _graph(graph, k)]


def write(report: Report, path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events(report), "otherData": {"dlc": report.headline()}}, file)
