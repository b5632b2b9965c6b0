"""Random choices by size in programs of the loops stage: the results stay, and every rewrite leaves them.

A kernel's phases are put into an `if` and, with other names, into its `else`: all of them, then those of
a branch again. Which branch runs depends on the sizes that are drawn. `dlc-opt --eval` compares what the
rewrites make of the program with the program, by the interpreter; the program has the results of the one
without these choices.
"""

import random
import re
from pathlib import Path

import pytest

from tests.dlc_opt import opt

EMIT = Path(__file__).parents[1] / "emit"
FILES = [
    "softmax",
    "columns",
    "pointwise",
    "joined",
    "gather",
    "recurrences",
    "over_rows",
    "row_sums",
    "scan",
]
PASSES = ["schedule,cc", "schedule,tcc", "schedule,c"]


def renamed(body: str, suffix: str) -> str:
    """The lets of a block under other names; indices of loops may keep theirs, those of binds have others."""
    names = set(re.findall(r"let \[(\w+)\]", body))
    for bound in re.findall(r"^ *let (.*?) = ", body, re.MULTILINE):
        names |= set(re.findall(r"(\w+): ", bound))

    def of(text: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda word: word[0] + suffix if word[0] in names else word[0], text)

    lines = []
    for line in body.splitlines(keepends=True):
        op = re.search(r"(?<= = )reduce \w+|(?<= = )\w+|update \w+", line) if "store" not in line else None
        lines.append(of(line[: op.start()]) + op[0] + of(line[op.end() :]) if op else of(line))
    return "".join(lines)


def chosen(body: str, sizes: list[str], draw: random.Random, depth: int = 2) -> str:
    """The block twice, in both branches of an if, and perhaps again in each."""
    if depth <= 0:
        return body
    sides = [draw.choice(sizes), draw.choice([str(draw.randint(0, 9)), draw.choice(sizes)])]
    draw.shuffle(sides)
    first = chosen(body, sizes, draw, depth - draw.randint(1, 2))
    second = chosen(renamed(body, f"_{draw.randint(0, 1 << 40)}"), sizes, draw, depth - draw.randint(1, 2))
    return f"    if {sides[0]} <= {sides[1]} {{\n{first}    }} else {{\n{second}    }}\n"


def with_choices(text: str, seed: int) -> str:
    head = re.search(r"^fn \w+\[(.*?)\]\(", text, re.MULTILINE)
    assert head
    sizes = re.findall(r"(\w+)(?: in [^,]*)?", head[1])
    draw = random.Random(seed)
    return re.sub(
        r"(= kernel \{\n)(.*?)(^  \})",
        lambda kernel: kernel[1] + chosen(kernel[2], sizes, draw) + kernel[3],
        text,
        flags=re.MULTILINE | re.DOTALL,
    )


def results(text: str, seed: int) -> str:
    return opt(text, "--emit", "none", "--eval", str(seed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", FILES)
def test_random_choices_change_no_result(name: str, seed: int) -> None:
    plain = opt((EMIT / f"{name}.dlc").read_text(), "--pass", "lower")
    text = opt(with_choices(plain, seed))
    assert text.count("if ") > plain.count("if ")
    assert opt(text) == text
    assert results(text, seed) == results(plain, seed)
    for passes in PASSES:
        opt(text, "--pass", passes, "--emit", "none", "--eval", str(seed))
