"""Measures, and writes the figures into the README: python -m benchmarks.readme [--budget SECONDS]"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import seconds
from benchmarks.peers import label
from examples.programs import FUNCTIONS

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- written by python -m benchmarks.readme: begin -->\n", "<!-- end -->\n"
STEADY = {
    "kernels": "functions of 4 million floats",
    "models": "models, inference",
    "overhead": "a function of 64 floats",
}


def measured(what: str, *options: str) -> dict[str, Any]:
    """The JSON of one benchmark, run in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.json")
        command = [sys.executable, "-m", "benchmarks", what, "--json", str(file), *options]
        subprocess.run(command, check=True)
        return json.loads(file.read_text())


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def steady_table(data: dict[str, Any]) -> str:
    """Medians, and in brackets how many times longer than settled dlc."""
    rows = data["rows"]
    peers = list(dict.fromkeys(p for row in rows for p in row["seconds"]))

    def cell(times: dict[str, Any], peer: str) -> str:
        if peer not in times:
            return ""
        value, base = times[peer]["median"], times["dlc"]["median"]
        return seconds(value) + ("" if peer == "dlc" else f" ({value / base:.2f})")

    body = [[r["case"], *(cell(r["seconds"], p) for p in peers)] for r in rows]
    return markdown(["", *map(label, peers)], body)


def compile_table(data: dict[str, Any]) -> str:
    rows = data["rows"]
    names = [label(peer).replace(" (settled)", "") for peer in rows[0]["seconds"]]
    body = [[r["case"], *map(seconds, r["seconds"].values()), seconds(r["own"]["dlc"])] for r in rows]
    return markdown(["", *names, "dlc: its own part"], body)


def section(budget: float) -> str:
    parts, data = [], {}
    for what, title in STEADY.items():
        options = ("--size", "mem", "--only", ",".join(FUNCTIONS)) if what == "kernels" else ()
        data = measured(what, "--budget", str(budget), *options)
        parts.append(
            f"`python -m benchmarks {what}`: {title}; in brackets the time over that of dlc, settled\n\n"
            + steady_table(data)
        )
    first = measured("compile")
    parts.append(
        "`python -m benchmarks compile`: the first call, in a new process with empty caches\n\n"
        + compile_table(first)
    )
    m = data["machine"]
    parts.append(
        f"{m['processor']}, {m['cores']} cores, {m['threads']} threads, {m['isa']}, PyTorch "
        f"{m['torch']}; medians of calls that take turns.\n"
    )
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("--budget", type=float, default=3.0, help="seconds of turns a case")
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(before + BEGIN + section(parser.parse_args().budget) + END + after)


if __name__ == "__main__":
    main()
