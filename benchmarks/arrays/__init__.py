"""dlc.jit beside NumPy and numba, if that is installed: programs of loops and writes, unchanged.

numba has each program twice: as it is written, where it takes that, and in its best form (numba_forms.py).
With one thread the times are processor time, so that other programs of the machine change them little.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import dlc
from benchmarks.arrays.numba_forms import FORMS
from benchmarks.arrays.programs import PROGRAMS, Program
from benchmarks.measure import Timing, interleaved, seconds

PEERS = ("numpy", "numba", "loops")
TITLES = {"dlc": "dlc", "numpy": "NumPy", "numba": "numba", "loops": "numba's best form"}


class Row(NamedTuple):
    case: str
    first: dict[str, float]  # seconds of the first call
    timings: dict[str, Timing]

    def best(self) -> float | None:
        """Of numba's forms the time of the faster, as a multiple of dlc's."""
        found = [self.timings[peer].median for peer in ("numba", "loops") if peer in self.timings]
        return min(found) / self.timings["dlc"].median if found else None


def _numba(function: Callable[..., Any]) -> Callable[..., Any] | None:
    if not importlib.util.find_spec("numba"):
        return None
    return importlib.import_module("numba").njit(error_model="numpy")(function)


def compiled(peer: str, name: str) -> Callable[..., Any] | None:
    """The program as the peer calls it; None where it does not take it."""
    program = PROGRAMS[name]
    if peer == "dlc":
        return dlc.jit(program.function)
    if peer == "numpy":
        return program.function
    if peer == "loops":
        return _numba(FORMS[name])
    return _numba(program.function) if program.numba else None


def copies(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)


def check(name: str, call: Callable[..., Any]) -> None:
    """Raises unless the call does what NumPy does."""
    program, found = PROGRAMS[name], []
    for function in (program.function, call):
        given = program.arguments(program.small)
        result = function(*given)
        results = result if isinstance(result, tuple) else () if result is None else (result,)
        found.append([*results, *(a for a in given if isinstance(a, np.ndarray))])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


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


def row(name: str, peers: list[str], budget: float, clock: Callable[[], float]) -> Row:
    program, first, calls = PROGRAMS[name], {}, {}
    for peer in peers:
        call = compiled(peer, name)
        if call is not None:
            calls[peer] = anew(call, program)
            start = clock()
            calls[peer]()
            first[peer] = clock() - start
            check(name, call)
    dlc.wait()
    return Row(name, first, interleaved(calls, budget, clock=clock))


def _one_more(x: Any) -> Any:
    return x + 1


def _begin(peers: list[str]) -> None:
    """Has each compiler compile something, because its first call imports what it consists of."""
    for call in (dlc.jit(_one_more), _numba(_one_more) if {"numba", "loops"} & set(peers) else None):
        if call is not None:
            call(np.ones(3))


def run(only: str, peers: list[str], budget: float, threads: int) -> list[Row]:
    clock = time.process_time if threads == 1 else time.perf_counter
    _begin(peers)
    return [row(name, peers, budget, clock) for name in PROGRAMS if only in name]


def table(rows: list[Row], peers: list[str]) -> Table:
    others = [peer for peer in PEERS if peer in peers]
    numba = [peer for peer in others if peer != "numpy"]
    first_calls = [f"first call of {TITLES[peer]}" for peer in ("dlc", *numba)]
    times = [TITLES[peer] for peer in ("dlc", *others)]
    made = Table("program", *first_calls, *times, "numba / dlc")
    for found in rows:
        best = found.best()
        first = [seconds(found.first[peer]) if peer in found.first else "" for peer in ("dlc", *numba)]
        each = [str(found.timings[peer]) if peer in found.timings else "" for peer in ("dlc", *others)]
        made.add_row(found.case, *first, *each, f"{best:.2f}" if best else "")
    ratios = [best for found in rows if (best := found.best())]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        made.add_row("geometric mean", *[""] * (2 + len(numba) + len(others)), f"{mean:.2f}")
    return made


def data(rows: list[Row]) -> list[dict[str, Any]]:
    return [
        {"case": r.case, "first": r.first, "timings": {k: v.data() for k, v in r.timings.items()}}
        for r in rows
    ]
