"""dlc.jit beside NumPy, and numba where it is installed: programs of loops and writes, unchanged."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import dlc
from benchmarks.arrays.programs import PROGRAMS, Program
from benchmarks.measure import Timing, interleaved, seconds, timed

#: numba reads each program as it is; parallel loops of its own are another program.
PEERS = ("numpy", "numba")


class Row(NamedTuple):
    case: str
    first: dict[str, float]  # seconds of the first call
    timings: dict[str, Timing]


def compiled(peer: str, program: Program) -> Callable[..., Any] | None:
    """The program as the peer calls it; None where it does not take it."""
    if peer == "dlc":
        return dlc.jit(program.function)
    if peer == "numpy":
        return program.function
    if peer == "numba" and program.numba and importlib.util.find_spec("numba"):
        return importlib.import_module("numba").njit(program.function)
    return None


def copies(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def anew(call: Callable[..., Any], program: Program) -> Callable[[], Any]:
    """The call on the values that it is made for: what it has written is undone, in the call's own arrays."""
    made = program.arguments(program.large)
    given = copies(made)

    def run() -> Any:
        for to, value in zip(given, made, strict=True):
            if isinstance(value, np.ndarray):
                to[...] = value
        return call(*given)

    return run


def row(name: str, peers: list[str], budget: float) -> Row:
    program, first, calls = PROGRAMS[name], {}, {}
    for peer in peers:
        call = compiled(peer, program)
        if call is not None:
            calls[peer] = anew(call, program)
            first[peer], _ = timed(calls[peer])
    dlc.wait()
    return Row(name, first, interleaved(calls, budget))


def run(only: str, peers: list[str], budget: float) -> list[Row]:
    return [row(name, peers, budget) for name in PROGRAMS if only in name]


def table(rows: list[Row], peers: list[str]) -> Table:
    others = [peer for peer in peers if peer != "dlc"]
    made = Table("program", "first call", "dlc", *(c for peer in others for c in (peer, f"{peer} / dlc")))
    for found in rows:
        t, cells = found.timings, [seconds(found.first["dlc"]), str(found.timings["dlc"])]
        for peer in others:
            cells += [str(t[peer]), f"{t[peer].median / t['dlc'].median:.2f}"] if peer in t else ["", ""]
        made.add_row(found.case, *cells)
    return made


def data(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        {"case": r.case, "first": r.first, "timings": {k: v.data() for k, v in r.timings.items()}}
        for r in rows
    ]
