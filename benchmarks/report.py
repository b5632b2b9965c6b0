"""Rows of timings as a table for people and as JSON for programs."""

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Timing, seconds
from benchmarks.peers import label


@dataclass(frozen=True)
class Row:
    """One program; a timing for each peer.

    floors: of peers whose call takes that long without any work, which is not counted. call: seconds of
    such a call where it is counted. share: how much dlc reached of the bandwidth of a copy of as many bytes
    in the same turns, or of the peak of multiplications. disturbed: what else the machine did meanwhile.
    """

    case: str
    timings: dict[str, Timing]
    size: str = ""
    floors: dict[str, Timing] = field(default_factory=dict)
    share: float = 0.0
    call: float = 0.0
    disturbed: str = ""

    def net(self, peer: str) -> float:
        """Seconds of a call beyond the peer's floor, and a tenth of a microsecond where that is less."""
        floor = self.floors[peer].median if peer in self.floors else 0.0
        return max(self.timings[peer].median - floor, 1e-7)

    def data(self) -> dict[str, Any]:
        data = asdict(self)
        return {"case": data.pop("case"), "seconds": data.pop("timings")} | data

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Row":
        timings, floors = ({p: Timing(**t) for p, t in data[k].items()} for k in ("seconds", "floors"))
        later = {name: data[name] for name in ("call", "disturbed") if name in data}
        return cls(data["case"], timings, data["size"], floors, data["share"], **later)


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        pass
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "isa": torch.backends.cpu.get_cpu_capability(),
    }


def ratios(row: Row) -> dict[str, float]:
    """How many times longer than dlc each peer takes, both beyond their floors."""
    return {name: row.net(name) / row.net("dlc") for name in row.timings if name != "dlc"}


def show(
    title: str, rows: list[Row], console: Console | None = None, share: str = "a copy's bandwidth"
) -> None:
    """Medians, half the distance of the quartiles, and the peers' time over dlc's; share: of what."""
    table = Table(title=title, caption="\u00d7: time over that of dlc, settled, both without their floors")
    table.add_column("case", no_wrap=True)
    names = list(dict.fromkeys(name for row in rows for name in row.timings))
    for name in names:
        table.add_column(label(name), justify="right", no_wrap=True)
    shares = any(row.share for row in rows)
    if shares:
        table.add_column(f"dlc, of {share}", justify="right")
    for row in rows:
        ratio = ratios(row) | {"dlc": 1.0}
        cells = [f"{row.timings[n]} {ratio[n]:5.2f}\u00d7" if n in ratio else "" for n in names]
        cells += [f"{row.share:.0%}" if row.share else ""] * shares
        table.add_row(f"{row.case}, {row.size}" if row.size else row.case, *cells)
    (console or wide()).print(table)


def wide() -> Console:
    """A console that does not squeeze a table when its output goes into a file."""
    console = Console()
    return console if console.is_terminal else Console(width=320)


def show_first(title: str, figure: str, rows: list[dict[str, Any]]) -> None:
    """One figure of the first call for each peer; durations also as multiples of Dynamo alone."""
    table = Table("case", title=title)
    for peer in dict.fromkeys(peer for row in rows for peer in row[figure]):
        table.add_column(label(peer).replace(" (settled)", ""), justify="right")
    for row in rows:
        table.add_row(row["case"], *(first_cell(row[figure], figure, peer) for peer in row[figure]))
    wide().print(table)


def first_cell(values: dict[str, float], figure: str, peer: str) -> str:
    if figure == "memory":
        return f"{values[peer] / 2**20:.1f} MiB"
    ratio = figure == "seconds" and peer != "dynamo" and "dynamo" in values
    return seconds(values[peer]) + (f" ({values[peer] / values['dynamo']:.2f})" if ratio else "")


def save(path: Path, kind: str, rows: Any) -> None:
    """Writes {kind, machine, rows}; rows are JSON already or `Row`s."""
    if rows and isinstance(rows[0], Row):
        rows = [r.data() for r in rows]
    path.write_text(json.dumps({"kind": kind, "machine": machine(), "rows": rows}, indent=1) + "\n")
