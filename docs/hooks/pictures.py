"""Pictures of a program at each stage, of the text that the passes print.

A line of the program is a line of the picture; what stands in braces is a box; a curve leads from a let to
each line that reads it.
"""

import re
import subprocess
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ROW, COLUMN, INDENT, MARGIN = 22, 7.9, 14, 10  # pixels

#: The passes before each stage.
STAGES = {
    "graph": "",
    "kernels": "canonicalise,dead,fuse",
    "loops": "canonicalise,dead,fuse,lower,schedule",
}


class Line(NamedTuple):
    row: int
    depth: int
    text: str

    @property
    def left(self) -> float:
        return MARGIN + INDENT * (self.depth + 1)

    @property
    def right(self) -> float:
        return self.left + COLUMN * len(self.text)

    @property
    def middle(self) -> float:
        return MARGIN + ROW * (self.row + 0.5)


class Box(NamedTuple):
    kind: str
    depth: int
    first: int
    last: int


def staged(program: str, stage: str) -> str:
    """The program's text at the stage, as the passes print it."""
    import dlc

    function = dlc.ir.parse(program)
    for name in filter(None, STAGES[stage].split(",")):
        function = function.run_pass(name)
    return function.text


def code(program: str, what: str) -> str:
    """The function in C that a kernel becomes, for libtcc ("tcc") or the C compiler ("cc")."""
    command = [ROOT / "build/dlc-opt", "--pass", f"{STAGES['loops']},{what}", "--emit", what, "-"]
    done = subprocess.run(command, input=program, capture_output=True, text=True, check=True)
    return done.stdout[done.stdout.rindex("\nint\nk0_0(") + 1 :]


def kind_of(line: str) -> str:
    found = re.search(r"= (kernel)\b|\b(parallel|vector)\b[^{]*\{", line)
    return next(filter(None, found.groups()), "box") if found else "box"


def layout(text: str) -> tuple[list[Line], list[Box]]:
    """The lines of the function's body, without closing braces, and the boxes around them."""
    lines, boxes, opened = list[Line](), list[Box](), list[tuple[str, int]]()
    body = text.partition("\nfn ")[2].splitlines()[1:-1]
    for raw in body:
        line = re.sub(r" {2,}", " ", raw.partition("@")[0].strip())
        if line == "}":
            kind, first = opened.pop()
            boxes.append(Box(kind, len(opened), first, len(lines) - 1))
            continue
        lines.append(Line(len(lines), len(opened), line.removesuffix(" {")))
        if line.endswith("{"):
            opened.append((kind_of(line), len(lines) - 1))
    return lines, boxes


def uses(lines: list[Line]) -> list[tuple[Line, Line]]:
    """From the let that a name is bound by to each line that reads it; an inner let hides one before."""
    found, bound = list[tuple[Line, Line]](), dict[str, Line]()
    for line in lines:
        name, _, right = line.text.partition(" = ")
        let = re.match(r"let (\w+)", name)
        for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", right if let else line.text)):
            if word in bound:
                found.append((bound[word], line))
        if let:
            bound[let[1]] = line
    return found


def draw(text: str) -> str:
    """The picture, as one line of HTML."""
    lines, boxes = layout(text)
    width = max(line.right for line in lines) + 130
    parts = []
    for box in sorted(boxes, key=lambda box: box.depth):
        x, y = MARGIN + INDENT * box.depth + 4, MARGIN + ROW * box.first + 1
        inside = max(line.right for line in lines[box.first : box.last + 1]) + 60 - INDENT * box.depth
        parts.append(
            f'<rect class="box {box.kind}" x="{x}" y="{y}" width="{inside - x:.0f}" '
            f'height="{ROW * (box.last - box.first + 1) - 2}" rx="5"/>'
        )
    for source, target in uses(lines):
        between = lines[source.row : target.row + 1]  # the curve passes them on the right
        out = max(line.right for line in between) + 8 + 6 * (target.row - source.row)
        a, b = f"{source.right + 3:.0f} {source.middle:.0f}", f"{target.right + 3:.0f} {target.middle:.0f}"
        near = f"{out:.0f} {source.middle:.0f} {out:.0f} {target.middle:.0f}"
        parts.append(f'<path class="use" d="M{a} C{near} {b}"/>')
    for line in lines:
        parts.append(f'<text x="{line.left}" y="{line.middle + 4}">{escape(line.text)}</text>')
    height = 2 * MARGIN + ROW * len(lines)
    return (
        f'<figure class="program"><svg viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'role="img" aria-label="the program">{"".join(parts)}</svg></figure>'
    )
