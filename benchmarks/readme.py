"""Writes figures into the README: python -m benchmarks.readme [PART|FILE.json ..]

A part is measured anew, or taken from a FILE that `python -m benchmarks PART --json FILE` wrote. The
others stay as they are. Without arguments all parts are measured.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import summary
from benchmarks.measure import seconds
from benchmarks.peers import label
from benchmarks.report import Row, ratios
from examples.programs import FUNCTIONS

README = Path(__file__).parent.parent / "README.md"
TITLES = {
    "kernels": "functions of 131,072 (`l2`) and 16.8 million (`mem`) floats",
    "models": "models, inference",
    "training": "models, forward and backward",
    "overhead": "a function of 64 floats, and modules",
    "compile": "the first call, in a new process with empty caches",
}
SIZES = ("l2", "mem")
HIDDEN = ("xla", "functorch")  # peers of which the README says nothing
CUTTERS = {"dlc": "dlc keeps for the backward", "functorch": "functorch would keep"}
PEERS = ("--peers", "eager,inductor,tcc")


def measured(what: str, budget: float) -> dict[str, Any]:
    """The figures of one benchmark, run in its own process."""
    options = {"kernels": PEERS, "compile": ()}.get(what, ())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.json")
        command = [sys.executable, "-m", "benchmarks", what, "--json", str(file)]
        subprocess.run([*command, "--budget", str(budget), *options], check=True)
        return json.loads(file.read_text())


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def steady_table(rows: list[Row], cuts: dict[str, dict[str, Any]] | None = None) -> str:
    """Medians, and in brackets how many times longer than settled dlc; cuts: what training keeps."""
    peers = list(dict.fromkeys(p for row in rows for p in row.timings if p not in HIDDEN))

    def cell(row: Row, peer: str) -> str:
        if peer not in row.timings:
            return ""
        ratio = "" if peer == "dlc" else f" ({ratios(row)[peer]:.2f})"
        return seconds(row.timings[peer].median) + ratio

    body = [[f"{r.case}, {r.size}" if r.size else r.case, *(cell(r, p) for p in peers)] for r in rows]
    for line in body if cuts else ():
        line += [f"{cuts[line[0]][by]['bytes'] / 2**20:.1f} MiB" for by in CUTTERS]
    return markdown(["", *map(label, peers), *(CUTTERS.values() if cuts else ())], body)


def kernels_table(rows: list[Row]) -> str:
    """Some of the cases; of all of them the geometric means."""
    shown = [r for size in SIZES for r in rows if r.size == size and r.case in FUNCTIONS]
    means = summary.text(rows).partition("\n\n")[0]
    return f"{steady_table(shown)}\n```\n{means}\n```\n"


def compile_table(rows: list[dict[str, Any]]) -> str:
    """Whole times, and what of settled dlc's is its own."""
    names = [label(peer).replace(" (settled)", "") for peer in rows[0]["seconds"]]
    body = [[r["case"], *map(seconds, r["seconds"].values()), seconds(r["own"]["dlc"])] for r in rows]
    return markdown(["", *names, "dlc: its own part"], body)


def part(data: dict[str, Any]) -> str:
    """One benchmark as the README has it."""
    what, m = data["kind"], data["machine"]
    if what == "compile":
        table = compile_table(data["rows"])
    else:
        rows = [Row.of(row) for row in data["rows"]]
        cuts = {row["case"]: row["cuts"] for row in data["rows"] if "cuts" in row}
        table = kernels_table(rows) if what == "kernels" else steady_table(rows, cuts)
    over = "" if what == "compile" else "; in brackets the time over that of dlc, settled"
    where = f"{m['processor']}, {m['cores']} cores, {m['threads']} threads, {m['isa']}, PyTorch {m['torch']}"
    return f"`python -m benchmarks {what}`: {TITLES[what]}{over} ({where})\n\n{table}"


def put(text: str, what: str, new: str) -> str:
    """The text with another part of that name."""
    begin, end = (f"<!-- figures of {what}: {word} -->\n" for word in ("begin", "end"))
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if not pattern.search(text):
        raise SystemExit(f"{README} has no place for the figures of {what}: {begin.strip()}")
    return pattern.sub(lambda _: begin + new + end, text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(TITLES)}, or a file")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of turns a case")
    args = parser.parse_args()
    for name in args.parts or TITLES:
        data = measured(name, args.budget) if name in TITLES else json.loads(Path(name).read_text())
        README.write_text(put(README.read_text(), data["kind"], part(data)))


if __name__ == "__main__":
    main()
