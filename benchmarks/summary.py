"""What rows of the kernel benchmark come to: python -m benchmarks.summary FILE.. joins several runs."""

import json
import sys
from math import exp, log
from pathlib import Path
from statistics import fmean

from benchmarks.measure import seconds
from benchmarks.peers import label
from benchmarks.report import Row, ratios

BEHIND = 1.05  # times the best peer's time, from which on a case is listed
BEST = ("eager", "inductor", "xla")


def best(row: Row) -> tuple[str, float] | None:
    """The fastest peer, and its time over dlc's."""
    found = {p: r for p, r in ratios(row).items() if p in BEST}
    return min(found.items(), key=lambda item: item[1]) if found else None


def geometric(values: list[float]) -> float:
    return exp(fmean(map(log, values)))


def mean(values: list[float]) -> str:
    """The geometric mean, as text."""
    return f"{geometric(values):.2f}" if values else "-"


def line(title: str, rows: list[Row]) -> str:
    eager, inductor = ([r[peer] for r in map(ratios, rows) if peer in r] for peer in ("eager", "inductor"))
    bests = [b[1] for b in map(best, rows) if b]
    figures = f"eager {mean(eager)}, TorchInductor {mean(inductor)}, best peer {mean(bests)}"
    return f"{title:>8}: {len(rows):3} rows, {figures}"


def text(rows: list[Row]) -> str:
    """Geometric means of peers' times over dlc's, and the cases in which a peer is ahead, worst first."""
    sizes = list(dict.fromkeys(row.size for row in rows))
    lines = ["Times over dlc's, geometric means (above 1: dlc is faster)"]
    lines += [line(size, [r for r in rows if r.size == size]) for size in sizes]
    lines += [line("all", rows), "", f"Behind the best peer by more than {BEHIND}"]
    behind = [(1 / b[1], b[0], r) for r in rows if (b := best(r)) and b[1] * BEHIND < 1]
    for times, peer, r in sorted(behind, key=lambda item: -item[0]):
        own, other = seconds(r.net("dlc")), seconds(r.net(peer))
        call = f" (of which a call without any work {seconds(r.call)})" if r.call else ""
        lines.append(f"{times:6.2f}  {r.case}, {r.size}: {own}{call}, {label(peer)} {other}")
    return "\n".join(lines)


if __name__ == "__main__":
    files = [json.loads(Path(name).read_text()) for name in sys.argv[1:]]
    print(text([Row.of(row) for file in files for row in file["rows"]]))
