"""What the option tune gains: each function with the schedules that dlc chooses and with those that it finds.

Both have a cache folder and kernels of their own, and take turns. With one thread a turn's time is that of
the processor, so that the figures are right on a busy machine, too.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from tqdm import tqdm

import dlc
from benchmarks.kernels import chosen, gradients, size_name, sizes
from benchmarks.measure import Timing, interleaved, seconds
from benchmarks.peers import own_code

FIRST = 10  # candidates


@dataclass(frozen=True)
class Gain:
    case: str
    size: str
    usual: float  # seconds of a call
    tuned: float
    kernels: int  # whose schedule was looked for in the forward
    found: int  # ... and found
    first: int  # ... among the first candidates
    held: (
        int  # kernels whose fastest schedule, of all that were measured, is the usual one or among the first
    )
    nests: int  # kernels whose schedule has other loops
    measured: int  # candidates of all kernels

    @property
    def ratio(self) -> float:
        return self.usual / self.tuned

    def data(self) -> dict[str, Any]:
        return asdict(self)


def compiled(case: Any, inputs: Any, **options: Any) -> Callable[[], Any]:
    run = torch.compile(own_code(case.call), backend="dlc", options=options)
    seed = torch.ones_like(case.call(*inputs)) if case.train else None

    def call() -> Any:
        return run(*inputs) if seed is None else gradients(run, inputs, seed)

    call()
    dlc.wait()
    return call


def place(line: str) -> int:
    """Which candidate the schedule was; 0: it is the usual one."""
    words = line.splitlines()[0].split()
    return int(words[words.index("candidate") + 1]) if "candidate" in words else 0


def measured(line: str) -> int:
    """How many candidates there were."""
    words = line.splitlines()[0].removesuffix(", not ended").split()
    return int(words[-1]) - (words[-2:-1] == ["of"] and "best" in words)


def has_nest(line: str) -> bool:
    return any(" split=" in row or " reorder" in row for row in line.splitlines()[1:])


def of_case(case: Any, n: int, budget: float, folder: Path) -> Gain:
    torch._dynamo.reset()
    inputs = case.arguments(n)
    tune = {"tune": True, "cache": str(folder / "tuned")}
    calls = {
        "usual": compiled(case, inputs, tier="gcc", cache=str(folder / "usual")),
        "tuned": compiled(case, inputs, tune_budget=budget, **tune),
    }
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    timings: dict[str, Timing] = interleaved(calls, 1.5, clock=clock)
    with torch.set_grad_enabled(bool(case.train)):
        report = dlc.explain(case.call, *inputs, options=tune | {"tune_budget": 0})
    lines = [line for graph in report.graphs for line in graph.tuned]
    places = [place(line) for line in lines]
    return Gain(
        case.title, size_name(n), timings["usual"].median, timings["tuned"].median,
        len(places), sum(k > 0 for k in places), sum(0 < k <= FIRST for k in places),
        sum(k <= FIRST for k in places), sum(map(has_nest, lines)), sum(map(measured, lines)),
    )  # fmt: skip


def run(only: str, size: str, budget: float) -> list[Gain]:
    """budget: seconds for the search in a graph.  What one case teaches the model, the next ones know."""
    jobs = [(c, n) for n in sizes(size) for c in chosen(only)]
    with tempfile.TemporaryDirectory() as folder, tqdm(jobs, disable=None, leave=False) as line:
        found = []
        for case, n in line:
            line.set_description(f"{case.title}, {size_name(n)}")
            found.append(of_case(case, n, budget, Path(folder)))
        return found


def table(rows: list[Gain]) -> Table:
    made = Table("case", "size", title=f"schedules that are found, {torch.get_num_threads()} threads")
    for name in ("usual", "tuned", "usual / tuned"):
        made.add_column(name, justify="right")
    for row in rows:
        made.add_row(row.case, row.size, seconds(row.usual), seconds(row.tuned), f"{row.ratio:.3f}")
    return made


def text(rows: list[Gain]) -> str:
    """Geometric means, and how soon the model comes to the best candidate."""
    lines = []
    for size in dict.fromkeys(row.size for row in rows):
        of = [row for row in rows if row.size == size]
        lines.append(f"{size}: {exp(sum(log(row.ratio) for row in of) / len(of)):.3f} times as fast")
    names = ("kernels", "found", "first", "held", "nests", "measured")
    kernels, found, first, held, nests, candidates = (
        sum(getattr(row, name) for row in rows) for name in names
    )
    lines.append(
        f"{found} of {kernels} kernels have another schedule, {first} among the first {FIRST} candidates, "
        f"{nests} other loops"
    )
    lines.append(
        f"the first {FIRST} hold the best of all that were measured in {held} of {kernels} kernels "
        f"({100 * held / max(kernels, 1):.0f} %; {candidates / max(kernels, 1):.0f} candidates for each)"
    )
    return "\n".join(lines)
