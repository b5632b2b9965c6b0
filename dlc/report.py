"""dlc.explain: what became of a function's graphs."""

from __future__ import annotations

import argparse
import dataclasses
import html
import runpy
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import _C
from .options import failure_text


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


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
    tuned: list[str] = dataclasses.field(default_factory=list)  # of each kernel measured, what was found
    prepared: tuple[int, int] = (0, 0)  # values made of frozen parameters: how many, their bytes

    @classmethod
    def from_report(cls, report: dict[str, Any]) -> Graph:
        stages = ("walk", "fusion", "codegen")
        return cls(
            kind=report["kind"],
            kernels=report.get("kernel_count", 0),
            calls=report.get("calls", []),
            passes=report.get("passes", []),
            seconds={stage: report.get(f"{stage}_seconds", 0.0) for stage in stages},
            texts={name: report.get(name, "") for name in ("graph", "kernels", "loops", "tcc", "cc", "plan")},
            error=report.get("error"),
            indirect=report.get("indirect"),
            partition=report.get("partition") or {},
            tuned=report.get("tuned", []),
            prepared=report.get("prepared", (0, 0)),
        )

    def lines(self) -> Iterator[str]:
        if self.error is not None:
            yield f"{self.kind} graph: runs eagerly: {self.error}"
            return
        total = 1e3 * sum(self.seconds.values())
        stages = ", ".join(f"{name} {1e3 * t:.1f}" for name, t in self.seconds.items())
        calls = _count(len(self.calls), "call")
        yield f"{self.kind} graph: {_count(self.kernels, 'kernel')}, {calls}; {total:.1f} ms ({stages})"
        if self.indirect:
            yield f"  through AOTAutograd: {self.indirect}"
        if "error" in self.partition:
            yield f"  partitioned by functorch: {self.partition['error']}"
        elif self.partition:
            p = self.partition
            saved = f"  saves {p['bytes']:,} bytes for the backward ({_count(p['saved'], 'tensor')})"
            yield f"{saved}; computed again: {_count(p['recomputed'], 'value')}"
        if self.prepared[0]:
            n, size = self.prepared
            yield f"  keeps {size:,} bytes made of frozen parameters ({_count(n, 'value')})"
        for line in self.tuned:
            yield f"  tuned {line}"
        where = {target: source for target, _, source in reversed(self.calls)}
        for target, n in Counter(target for target, _, _ in self.calls).most_common():
            first = f", first at {where[target]}" if where[target] else ""
            yield f"  calls {target} {_count(n, 'time')}{first}"


@dataclasses.dataclass(frozen=True)
class Report:
    """The graphs of one function, in the order in which they were compiled."""

    graphs: list[Graph]

    def __str__(self) -> str:
        if not self.graphs:
            return "dlc compiled no graph: the function has no tensor operation, or Dynamo skipped it"
        failure = failure_text()
        lines = [line for graph in self.graphs for line in graph.lines()]
        return "\n".join([*lines, *([failure] if failure else [])])

    __repr__ = __str__

    def __rich__(self) -> Any:
        """The same as a table, where rich prints it."""
        from rich.table import Table

        table = Table("graph", "kernels", "calls", "ms", "what is not compiled")
        for graph in self.graphs:
            calls = Counter(target for target, _, _ in graph.calls)
            left = graph.error or ", ".join(f"{t} x{n}" for t, n in calls.most_common())
            total = 1e3 * sum(graph.seconds.values())
            table.add_row(graph.kind, str(graph.kernels), str(len(graph.calls)), f"{total:.1f}", left)
        table.caption = failure_text()
        return table

    def _repr_html_(self) -> str:
        parts = [f"<pre>{html.escape(str(self))}</pre>"]
        for k, graph in enumerate(self.graphs):
            for name, text in graph.texts.items():
                if text:
                    title = f"graph {k}: {name}"
                    parts.append(
                        f"<details><summary>{title}</summary><pre>{html.escape(text)}</pre></details>"
                    )
        return "".join(parts)


@contextmanager
def collect() -> Iterator[list[dict[str, Any]]]:
    """Gathers the reports of all graphs compiled inside."""
    from . import backend

    before, backend.reports = backend.reports, []
    try:
        yield backend.reports
    finally:
        backend.reports = before


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
        raise TypeError(f"dlc.explain takes a function or a module and its arguments, not {fn!r} first")
    if isinstance(getattr(fn, "__func__", fn), _C.Jit):
        raise TypeError(
            f"{fn.__name__}() is of dlc.jit, which compiles without Dynamo and keeps no report: explain the "
            f"function itself ({fn.__name__}.__wrapped__), or print its kernels: dlc.jit(fn, dump='loops')"
        )


def report(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Report:
    import torch

    _check(fn)
    torch._dynamo.reset()
    with collect() as reports:
        torch.compile(_uncompiled(fn), backend="dlc")(*args, **kwargs)
    return Report([Graph.from_report(report) for report in reports])


def _print(report: Report) -> None:
    """By rich where it is installed and a terminal reads."""
    try:
        from rich import print as show
    except ImportError:
        show = print
    (show if sys.stdout.isatty() else print)(report)


def _run(args: argparse.Namespace) -> int:
    """Runs a script and reports every graph that it compiles with the backend."""
    if not Path(args.script).is_file():
        print(f"{args.script}: there is no such file", file=sys.stderr)
        return 2
    sys.argv = [args.script, *args.arguments]
    sys.path.insert(0, str(Path(args.script).resolve().parent))  # as `python script.py` has it
    with collect() as reports:
        try:
            runpy.run_path(args.script, run_name="__main__")
        finally:  # also of a script that raises, or ends in sys.exit()
            graphs = [Graph.from_report(report) for report in reports]
            _print(Report(graphs))
            for graph in graphs:
                if args.show and graph.texts[args.show]:
                    print(graph.texts[args.show])
    return 0


def add_command(commands: Any) -> None:
    parser = commands.add_parser("explain", help="run a script and show what dlc made of its graphs")
    parser.add_argument("--show", choices=["graph", "kernels", "loops", "tcc", "cc", "plan"])
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_run)
