"""Runs a function under the backend, and gathers what became of it: graphs, times, what Dynamo left out."""

from __future__ import annotations

import dataclasses
import linecache
import logging
import re
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _C
from ..options import failure_text, parse
from .inside import inside
from .machine import Machine, Watch, measured_machine
from .model import Break, Graph, Place, Report, own_line
from .steps import add_predictions, add_steps

log = logging.getLogger("dlc")

_AGAIN = 20  # calls that are measured, at most,
_AGAIN_LEAST = 3  # and at least, where they are not long
_AGAIN_SECONDS = 0.3  # that they may take for a graph, about,
_AGAIN_MOST = 3.0  # and where they are long
_SETTLE_SECONDS = 20.0  # to wait for the C compiler


@contextmanager
def collect(keep: bool = False) -> Iterator[list[dict[str, Any]]]:
    """Gathers the reports of all graphs compiled inside; keep: with the arguments of their first calls."""
    from .. import backend

    before, backend.reports = backend.reports, []
    kept, backend.keep_arguments = backend.keep_arguments, keep
    try:
        yield backend.reports
    finally:
        backend.reports, backend.keep_arguments = before, kept


# ---- what Dynamo leaves out ----


class Seen:
    """Graph breaks and skipped functions, in the order in which they were met."""

    def __init__(self) -> None:
        self.breaks: list[Break] = []
        self.functions: list[Place] = []
        self.names: dict[str, tuple[str, Place]] = {}  # by compile id, which a graph has too


def _words(reason: str) -> tuple[str, str]:
    """What Dynamo says, in a line, and its first hint."""
    lines = [line.strip() for line in reason.strip().splitlines() if line.strip()]
    said = next((line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation:")), "")
    hints = [line.removeprefix("Hint: ") for line in lines if line.startswith("Hint:")]
    hints = [hint for hint in hints if "report an issue" not in hint and "fundamental" not in hint] or [""]
    first = lines[0] if lines else "no reason given"
    if first.startswith(("generic_jump", "Data-dependent branching")):
        what = "an `if` or a loop asks for the values of a tensor"
        return what, "torch.where computes both sides, torch.cond compiles both"
    if first.startswith("Unsupported Tensor.backward() call"):
        what = "Dynamo leaves backward() to Python; the forward and the backward of the loss are compiled"
        return what, "end the function with the loss, and call backward() outside"
    if first.startswith("Call to `torch._dynamo.graph_break()`") and "Message: None" in reason:
        return "torch._dynamo.graph_break() is called", ""
    if "Optimizer.zero_grad" in said:
        return "Dynamo leaves zero_grad() to Python", "call it outside of the function"
    text = f"{first}: {said}" if said else first
    return text.rstrip("."), hints[0].split(". ")[0].rstrip(".")


def _place(file: str | None, line: int | None) -> Place | None:
    return Place(file, line, own_line(linecache.getline(file, line).strip())) if file and line else None


def _function(name: str) -> str:
    """A function's name, also of the rest of one that Dynamo cut."""
    found = re.match(r"torch_dynamo_resume_in_(.*)_at_(\d+)", name)
    return f"{found[1]}, after line {found[2]}" if found else name


@contextmanager
def watch() -> Iterator[Seen]:
    """What Dynamo says while the block runs; filled in at its end."""
    from torch._dynamo import utils

    seen = Seen()
    before = len(utils.graph_break_reasons)
    known = {id(metrics) for metrics in utils.get_compilation_metrics()}
    try:
        yield seen
    finally:
        for reason in utils.graph_break_reasons[before:]:
            frame = reason.user_stack[-1] if reason.user_stack else None
            place = _place(frame.filename, frame.lineno) if frame else None
            seen.breaks.append(
                Break("graph break", _function(frame.name) if frame else "", *_words(reason.reason), place)
            )
        for metrics in utils.get_compilation_metrics():
            if id(metrics) in known or not metrics.co_filename:
                continue
            if metrics.co_filename.endswith("torch/_dynamo/external_utils.py"):
                continue  # Dynamo's own frame around a module of torch's
            name = _function(metrics.co_name or "")
            start = Place(metrics.co_filename, metrics.co_firstlineno or 1)
            seen.names[str(metrics.compile_id)] = (name, start)
            if start not in seen.functions:
                seen.functions.append(start)
            if metrics.fail_reason or metrics.fail_type:
                place = _place(metrics.fail_user_frame_filename, metrics.fail_user_frame_lineno) or start
                words = _words(metrics.fail_reason or str(metrics.fail_type))
                seen.breaks.append(Break("skipped", name, *words, place))


# ---- measuring ----


def _again(report: dict[str, Any]) -> None:
    """The graph runs on its own, on the arguments of its first call; what it writes to are copies."""
    import torch

    compiled, given = report.get("callable"), report.get("arguments")
    report["profile"] = first = compiled.profile() if compiled is not None else None
    if first is None or given is None or not all(row["again"] for row in report["nodes"].values()):
        return
    args = list(given)
    for k in first["written"]:
        old = args[k]
        args[k] = torch.empty_strided(old.shape, old.stride(), dtype=old.dtype).copy_(old)
    compiled.profile(begin=True)
    begin, watch, calls = time.perf_counter(), Watch(), []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for k in range(_AGAIN):
            # The results before live until these are made: else the C library gives their memory back to the
            # system each time, and kernels are measured that wait for its pages.
            called = time.perf_counter()
            kept = compiled(list(args))
            calls.append(time.perf_counter() - called)
            taken = time.perf_counter() - begin
            if taken > (_AGAIN_SECONDS if k + 1 >= _AGAIN_LEAST else _AGAIN_MOST):
                break
        report["disturbed"] = watch.busy(calls[1:])
        report["profile"] = compiled.profile()
        found = _inside(report["profile"]["steps"], lambda: compiled(list(args)))
    del kept
    if found:
        report["profile"]["memory"] = compiled.profile(inside=found)["memory"]
    report["inside"] = max(found.values(), default=0)


def _inside(steps: list[dict[str, Any]], call: Callable[[], Any]) -> dict[int, int]:
    try:
        return inside(steps, call)
    except Exception as error:  # torch has no such profiler, or another one runs
        log.debug("what calls take inside is not known: %s", error, exc_info=error)
        return {}


def measure(reports: list[dict[str, Any]]) -> None:
    """Each graph by itself, once the C compiler has nothing left to do."""
    _C.wait(_SETTLE_SECONDS)
    for report in reports:
        try:
            _again(report)
        except Exception as error:  # what is measured is not worth an error
            log.debug("a graph is not measured again: %s", error, exc_info=error)
        report["arguments"] = None  # those of later calls are not kept


def _predicted(graph: Graph, report: dict[str, Any], machine: Machine) -> Graph:
    try:
        return add_predictions(graph, report, machine)
    except Exception as error:  # a prediction is not worth an error
        log.debug("a graph is not predicted: %s", error, exc_info=error)
        return graph


def build(reports: list[dict[str, Any]], seen: Seen, options: dict[str, Any] | None = None) -> Report:
    """The report of what was gathered."""
    made, parsed = [], parse(options, None)
    for report in reports:
        graph = add_steps(Graph.from_report(report), report, parsed)
        name, place = seen.names.get(report.get("compile_id", ""), ("", None))
        made.append(dataclasses.replace(graph, function=name, place=place))
    folder = parsed.cache_folder
    machine = measured_machine(folder) if any(graph.call_seconds for graph in made) else None
    if machine is not None:
        made = [_predicted(graph, report, machine) for graph, report in zip(made, reports, strict=True)]
    disturbed = next((report["disturbed"] for report in reports if report.get("disturbed")), "")
    return Report(made, seen.breaks, machine, failure_text(), seen.functions, disturbed)


# ---- dlc.explain ----


def _uncompiled(fn: Any) -> Any:
    """What torch.compile or Module.compile was given, whatever the backend: else that one would be called."""
    from torch._dynamo import OptimizedModule
    from torch.nn import Module

    if isinstance(fn, types.MethodType):
        return types.MethodType(_uncompiled(fn.__func__), fn.__self__)
    if isinstance(fn, OptimizedModule):
        return _uncompiled(fn._orig_mod)
    if isinstance(fn, Module):
        return fn if fn._compiled_call_impl is None else fn._call_impl
    if getattr(fn, "_torchdynamo_wrapper_id", None) == id(
        fn
    ):  # functools.wraps copies both to another function
        return _uncompiled(fn._torchdynamo_orig_callable)
    return fn


def _check(fn: Any) -> None:
    if not callable(fn):
        kind = "tensor" if hasattr(fn, "numel") else type(fn).__name__
        raise TypeError(
            f"dlc.explain takes a function or a module and then its arguments, not a {kind}: write "
            "dlc.explain(f, x), not dlc.explain(f(x))"
        )
    if isinstance(getattr(fn, "__func__", fn), _C.Jit):
        raise TypeError(
            f"{fn.__name__}() is of dlc.jit, which compiles without Dynamo and keeps no report: explain the "
            f"function itself ({fn.__name__}.__wrapped__), or print its kernels: dlc.jit(fn, dump='loops')"
        )


def explain(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any] | None
) -> Report:
    import torch

    _check(fn)
    torch._dynamo.reset()
    with watch() as seen, collect(keep=True) as reports:
        torch.compile(_uncompiled(fn), backend="dlc", options=options)(*args, **kwargs)
        measure(reports)
    report = build(reports, seen, options)
    # Dynamo has no frame for a module of torch's own
    name = getattr(fn, "__name__", type(fn).__name__)
    graphs = [dataclasses.replace(graph, function=graph.function or name) for graph in report.graphs]
    return dataclasses.replace(report, graphs=graphs)
