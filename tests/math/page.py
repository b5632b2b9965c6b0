"""docs/strips.md, the vector primitives by family: python -m tests.math.page"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
STRIPS = ROOT / "csrc/codegen/strips"
PAGE = ROOT / "docs/strips.md"

COMMON = """\
Each elementwise operation of `csrc/ir/ops.def` is a strip, `strip_<op>_<dtype>`; the families below
are the others. `n` may be 0. Arrays need not be aligned. `out` may be the same array as an operand
whose elements have the same size; other overlap is not allowed. If bit k of `scalars` is set, operand
k is one element that is used for all. Each element has the same bits as in the interpreter, on every
instruction set.
"""

FLOAT = ["f32", "f64"]
NUM = [*FLOAT, "i32", "i64"]
SAME = [*NUM, "bool"]
PART = ["c64", "c128"]
#: What each kind of FORMS adds to a name.
KINDS = {
    "ONE": [],
    "FLOAT": FLOAT,
    "NUM": NUM,
    "SAME": SAME,
    "PART": PART,
    "STORAGE": [*SAME, "u8", "i8", "i16", "f16", "bf16", *PART],
    "BYTES": ["1", "2", "4", "8", "16"],
    "GRIDS": ["1", "4", "8", "16", "u8", "i8", "i16", "f16", "bf16"],
}
ROW = re.compile(
    r'STRIPS\((\w+), ("\w+"|NULL),\s*((?:"[^"]*"\s*)+),\s*((?:"[^"]*"\s*)+)\)|^FORMS\((\w+), (\w+)\)', re.M
)


class Family(NamedTuple):
    name: str
    returns: str
    parameters: str
    what: str
    members: list[str]


def joined(literals: str) -> str:
    return "".join(re.findall(r'"([^"]*)"', literals))


def fused() -> dict[str, list[str]]:
    """The members of the families that are rows of fused.def."""
    found: dict[str, list[str]] = {}
    for kind, inside in re.findall(r"^([A-Z]+)\(([^)]*)\)", (STRIPS / "fused.def").read_text(), re.M):
        dtype, *words = (word.strip() for word in inside.split(","))
        family, form = kind.lower(), words
        if kind == "THEN":
            form = words[1:]
            family = "then_neg" if form[0] == "neg" else "then"
        elif kind == "CHOOSE":
            form = words[:1]
        elif kind == "FOLD":
            form, dtype = [dtype, words[1]], "f32"
        elif kind == "NONTEMPORAL":
            form, dtype = words, "f32"
        found.setdefault(family, []).append("_".join([kind.lower(), *form, dtype]))
    return found


def families() -> list[Family]:
    """The rows of strips.def, each with all of its members."""
    found: list[Family] = []
    rows = fused()
    for name, returns, parameters, what, kind, form in ROW.findall((STRIPS / "strips.def").read_text()):
        if name:
            result = "T" if returns == "NULL" else returns.strip('"')
            found.append(Family(name, result, joined(parameters), joined(what), rows.get(name, [])))
        else:
            found[-1].members.extend([f"{form}_{end}" for end in KINDS[kind]] or [form])
    return found


def text() -> str:
    lines = [
        "# Vector primitives",
        "",
        "Written by `python -m tests.math.page` from `csrc/codegen/strips/strips.def` and `fused.def`.",
        "",
        "libtcc does not vectorise, so its code calls SIMD routines over short contiguous arrays, *strips*:",
        "",
        "    strip_exp_f32(t0, x + 1024 * i, w, 0);      /* t0[k] = exp(x[1024 * i + k]) for k < w */",
        "    strip_add_f32(y + 1024 * i, t0, c, w, 2);   /* y[1024 * i + k] = t0[k] + *c */",
        "",
        *textwrap.wrap(COMMON, 100),
        "",
    ]
    for family in families():
        what = re.sub(r"\w*<\w+>", r"`\g<0>`", family.what)
        lines += [f"## {family.name}", "", what, ""]
        name = family.name if family.members == [family.name] else f"{family.name}_<form>"
        if family.parameters:
            lines += [f"    {family.returns} strip_{name}({family.parameters})", ""]
        if name != family.name:
            lines += [", ".join(f"`{member}`" for member in family.members), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(text())
