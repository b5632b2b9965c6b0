"""Writes figures into docs/performance.md, and what they come to into the README.

    python -m benchmarks.readme [PART|FILE.json ..]

A part is measured anew, or taken from a FILE that `python -m benchmarks PART --json FILE` wrote; several
files of one part are put together. The other parts stay as they are. Without arguments all are measured.
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
from benchmarks.summary import geometric
from examples.programs import FUNCTIONS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "performance.md"
PARTS = ("kernels", "models", "products", "attention", "convolutions", "training", "overhead", "compile")
SIZES = ("l2", "mem")
HIDDEN = ("xla", "functorch")  # peers of which the page says nothing
CUTTERS = {"dlc": "dlc keeps for the backward", "functorch": "functorch would keep"}
OPTIONS = {
    "kernels": ("--peers", "eager,inductor,tcc"),
    "compile": ("--peers", "dynamo,aot_eager,tcc,dlc,warm,inductor"),
    "convolutions": ("--peers", "eager,last,inductor,frozen"),
}
FORMS = {"torch": "eager", "tcc": "dlc (libtcc)", "gcc": "dlc (settled)", "frozen": "dlc (frozen)"}

#: The rows of the tables of means: words, the part of the page, how the names of its rows end.
MEANS = (
    ("the first call", "compile", ""),
    ("functions of 131,072 floats", "kernels", ", l2"),
    ("functions of 16.8 million floats", "kernels", ", mem"),
    ("matrix products, 2 threads", "products", ", 2"),
    ("models, inference", "models", ""),
    ("networks of convolutions, inference, 1 image", "convolutions", ", 1"),
    ("networks of convolutions, inference, 8 images", "convolutions", ", 8"),
    ("models, a step of training", "training", ""),
)


# ---- a part of the page ----


def measured(what: str, budget: float) -> dict[str, Any]:
    """The figures of one benchmark, run in its own process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.json")
        command = [sys.executable, "-m", "benchmarks", what, "--json", str(file)]
        subprocess.run([*command, "--budget", str(budget), *OPTIONS.get(what, ())], check=True)
        return json.loads(file.read_text())


def markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def steady_table(rows: list[Row], cuts: dict[str, dict[str, Any]] | None = None, share: str = "") -> str:
    """Medians, and in brackets how many times longer than settled dlc.

    cuts: what training keeps. share: what the rows' shares are, if they are shown.
    """
    peers = list(dict.fromkeys(p for row in rows for p in row.timings if p not in HIDDEN))

    def cell(row: Row, peer: str) -> str:
        if peer not in row.timings:
            return ""
        ratio = "" if peer == "dlc" else f" ({ratios(row)[peer]:.2f})"
        return seconds(row.timings[peer].median) + ratio

    body = [[f"{r.case}, {r.size}" if r.size else r.case, *(cell(r, p) for p in peers)] for r in rows]
    for line in body if cuts else ():
        line += [f"{cuts[line[0]][by]['bytes'] / 2**20:.1f} MiB" for by in CUTTERS]
    for line, row in zip(body, rows, strict=True) if share else ():
        line.append(f"{row.share:.0%}")
    more = [*(CUTTERS.values() if cuts else ()), *([share] if share else ())]
    return markdown(["", *map(label, peers), *more], body)


def kernels_table(rows: list[Row]) -> str:
    """Some of the cases; of all of them the geometric means."""
    shown = [r for size in SIZES for r in rows if r.size == size and r.case in FUNCTIONS]
    means = summary.text(rows).partition("\n\n")[0]
    return f"{steady_table(shown)}\n```\n{means}\n```\n"


def products_table(rows: list[dict[str, Any]]) -> str:
    """Linear layers by their sizes and threads; rows without a floor are of layers around them."""

    def cell(took: dict[str, float], form: str) -> str:
        ratio = "" if form == "gcc" else f" ({took[form] / took['gcc']:.2f})"
        return seconds(took[form]) + ratio

    body = [
        [f"{r['case']}, {r['threads']}", *(cell(r["seconds"], f) for f in FORMS), f"{r['share']:.0%}"]
        for r in rows
        if "floor" in r["seconds"]
    ]
    return markdown(["rows x columns x terms, threads", *FORMS.values(), "frozen, of the peak"], body)


def compile_table(rows: list[dict[str, Any]]) -> str:
    """Whole times, in brackets over Dynamo alone, and what of dlc's is its own."""

    def cell(row: dict[str, Any], peer: str) -> str:
        whole = row["seconds"]
        ratio = "" if peer == "dynamo" else f" ({whole[peer] / whole['dynamo']:.2f})"
        return seconds(whole[peer]) + ratio

    peers = list(rows[0]["seconds"])
    body = [[r["case"], *(cell(r, p) for p in peers), seconds(r["own"]["dlc"])] for r in rows]
    names = [label(peer).replace(" (settled)", "") for peer in peers]
    return markdown(["", *names, "dlc: its own part"], body)


def part(data: dict[str, Any]) -> str:
    """One benchmark as the page has it."""
    what, m = data["kind"], data["machine"]
    if what == "compile":
        table = compile_table(data["rows"])
    elif what == "products":
        table = products_table(data["rows"])
    else:
        rows = [Row.of(row) for row in data["rows"]]
        cuts = {row["case"]: row["cuts"] for row in data["rows"] if "cuts" in row}
        share = "dlc, of the peak" if what == "convolutions" else ""
        table = kernels_table(rows) if what == "kernels" else steady_table(rows, cuts, share)
    where = f"{m['processor']}, {m['cores']} cores, {m['threads']} threads, {m['isa']}, PyTorch {m['torch']}"
    return f"`python -m benchmarks {what}` on {where}\n\n{table}"


def joined(files: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows of all files, which have to come from one machine."""
    if any(file["machine"] != files[0]["machine"] for file in files):
        raise SystemExit(f"{files[0]['kind']}: the files come from different machines")
    return files[0] | {"rows": [row for file in files for row in file["rows"]]}


# ---- the tables of means, which the rest of the page determines ----


def between(text: str, what: str) -> re.Match[str]:
    """The part of that name in a page."""
    begin, end = (re.escape(f"<!-- figures of {what}: {word} -->\n") for word in ("begin", "end"))
    found = re.search(f"(?<={begin}).*?(?={end})", text, re.DOTALL)
    if not found:
        raise SystemExit(f"there is no place for the figures of {what}: {begin}")
    return found


def put(text: str, what: str, new: str) -> str:
    """The text with another part of that name."""
    place = between(text, what)
    return text[: place.start()] + new + text[place.end() :]


def brackets(page: str, what: str, ending: str) -> dict[str, dict[str, float]]:
    """The figures in brackets of the rows whose names end so, by column and row."""
    lines = re.findall(r"^\| (.*) \|$", between(page, what).group(), re.MULTILINE)
    header, _, *rows = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    found = dict[str, dict[str, float]]()
    for name, *cells in rows:
        for column, cell in zip(header[1:], cells, strict=True):
            if name.endswith(ending) and (figure := re.search(r"\(([\d.]+)\)", cell)):
                found.setdefault(column, {})[name] = float(figure[1])
    return found


def over_dlc(columns: dict[str, dict[str, float]], peer: str) -> str:
    """The geometric mean of a column. The first call's figures are over Dynamo's, so dlc has a column too."""
    own = columns.get("dlc", {})
    figures = [figure / own.get(name, 1.0) for name, figure in columns.get(peer, {}).items()]
    return f"{geometric(figures):.2f} ({len(figures)})" if figures else "-"


def machine_of(page: str, what: str) -> str:
    """Where a part of the page was measured."""
    return between(page, what).group().partition("\n")[0].partition(" on ")[2]


def means(page: str, machine: str) -> str:
    """Geometric means of what the page has from one machine."""
    rows = list[list[str]]()
    for words, what, ending in MEANS:
        if machine_of(page, what) == machine:
            columns = brackets(page, what, ending)
            figures = [over_dlc(columns, peer) for peer in ("eager", "TorchInductor")]
            rows.append([words, *figures, f"`python -m benchmarks {what}`"])
    return f"{markdown(['', 'eager', 'TorchInductor', 'command'], rows)}\nMeasured on {machine}.\n"


def machines(page: str) -> list[str]:
    """The machines of the page; that of the first row comes first, and its table is the README's."""
    return list(dict.fromkeys(machine_of(page, what) for _, what, _ in MEANS))


def all_means(page: str) -> str:
    """One table for each machine."""
    first = geometric(list(brackets(page, "compile", "")["dlc"].values()))
    tables = [means(page, machine) for machine in machines(page)]
    return "\n".join([*tables, f"A first call with dlc takes {first:.2f} times as long as Dynamo alone.\n"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}, or a file")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds of turns a case")
    args = parser.parse_args()
    found = dict[str, list[dict[str, Any]]]()
    for name in args.parts:
        data = measured(name, args.budget) if name in PARTS else json.loads(Path(name).read_text())
        found.setdefault(data["kind"], []).append(data)
    for what in found or PARTS:
        data = joined(found[what]) if found else measured(what, args.budget)
        PAGE.write_text(put(PAGE.read_text(), what, part(data)))
    page = PAGE.read_text()
    page = put(page, "means", all_means(page))
    PAGE.write_text(page)
    README.write_text(put(README.read_text(), "means", means(page, machines(page)[0])))
    from benchmarks import plots  # which reads the page by functions of this file

    plots.write()


if __name__ == "__main__":
    main()
