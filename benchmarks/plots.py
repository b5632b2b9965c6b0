"""The plots of docs/performance.md, of the figures that the page has.

python -m benchmarks.plots          writes docs/plots
python -m benchmarks.plots --check  says whether they are those of the page
"""

import argparse
import math
from html import escape
from pathlib import Path

from benchmarks.readme import PAGE, brackets

FOLDER = PAGE.parent / "plots"
LEFT, RIGHT, TOP, ROW, WIDTH = 150, 20, 46, 20, 760  # pixels
COLORS = {
    "eager": "#e53935",
    "TorchInductor": "#fb8c00",
    "aot_eager": "#8e24aa",
    "dlc (libtcc)": "#43a047",
    "dlc": "#1e88e5",
}

#: The file: what it shows, the part of the page, how the names of its rows end.
PLOTS = {
    "kernels_l2.svg": ("Functions of 131,072 floats: times over dlc's", "kernels", ", l2"),
    "kernels_mem.svg": ("Functions of 16.8 million floats: times over dlc's", "kernels", ", mem"),
    "models.svg": ("Models, inference: times over dlc's", "models", ""),
    "training.svg": ("A step of training: times over dlc's", "training", ""),
    "compile.svg": ("The first call: times over Dynamo alone", "compile", ""),
}

Columns = dict[str, dict[str, float]]


def ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, .. and so on, as far as the figures go."""
    steps = [m * 10.0**e for e in range(-2, 4) for m in (1, 2, 5)]
    first = max(t for t in steps if t <= low)
    last = min(t for t in steps if t >= high)
    return [t for t in steps if first <= t <= last]


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def draw(title: str, columns: Columns) -> str:
    """A row for each program, a dot for each peer, on a logarithmic axis."""
    rows = list(dict.fromkeys(name for column in columns.values() for name in column))
    figures = [figure for column in columns.values() for figure in column.values()]
    marks = ticks(min([*figures, 1.0]), max([*figures, 1.0]))
    span = math.log(marks[-1] / marks[0]) or 1.0
    height = TOP + ROW * len(rows) + 24

    def at(figure: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(figure / marks[0]) / span

    parts = [text(LEFT, 14, title)]
    for mark in marks:
        strong = ' stroke-width="2"' if mark == 1 else ' stroke-opacity=".3"'
        parts.append(f'<path d="M{at(mark):.1f} {TOP - 6}V{height - 18}" stroke="#888"{strong}/>')
        parts.append(text(at(mark), height - 4, f"{mark:g}", "middle"))
    x = float(LEFT)
    for peer in columns:
        parts.append(f'<circle cx="{x + 5:.1f}" cy="28" r="4.5" fill="{COLORS[peer]}"/>')
        parts.append(text(x + 14, 32, peer))
        x += 40 + 7.2 * len(peer)
    for k, row in enumerate(rows):
        y = TOP + ROW * (k + 0.5)
        parts.append(text(LEFT - 8, y + 4, row.partition(",")[0], "end"))
        for peer, column in columns.items():
            if row in column:
                dot = f'cx="{at(column[row]):.1f}" cy="{y:.1f}" r="4.5" fill="{COLORS[peer]}"'
                parts.append(
                    f"<circle {dot}><title>{escape(f'{row}: {peer} {column[row]:.2f}')}</title></circle>"
                )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="12" fill="#888">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def plots(page: str) -> dict[str, str]:
    """The text of each file, of the page's figures."""
    made = {}
    for file, (title, part, ending) in PLOTS.items():
        columns = {peer: column for peer, column in brackets(page, part, ending).items() if peer in COLORS}
        made[file] = draw(title, columns)
    return made


def write(folder: Path = FOLDER) -> None:
    folder.mkdir(exist_ok=True)
    for file, made in plots(PAGE.read_text()).items():
        (folder / file).write_text(made)


def stale() -> list[str]:
    made = plots(PAGE.read_text())
    return [
        file
        for file, new in made.items()
        if not (FOLDER / file).exists() or (FOLDER / file).read_text() != new
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    if parser.parse_args().check:
        if found := stale():
            raise SystemExit(f"python -m benchmarks.plots: not those of the page: {', '.join(found)}")
    else:
        write()


if __name__ == "__main__":
    main()
