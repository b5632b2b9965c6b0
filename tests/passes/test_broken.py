"""A rewrite of the schedule that is wrong on purpose is seen by the verifier, and found by bisection.

build/broken-emit and build/broken-replay are test-emit and test-replay with the bugs of broken.c.
"""

import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.fresh import run_module

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("DLC_BIN", ROOT / "build"))

SOFTMAX = """dlc 1 graph

fn softmax[B in 2..inf, N in 2..inf](x: f32[B, N]) -> (f32[B, N]) {
  let m: f32[B] = amax x axes=[1]
  let n: f32[B, N] = expand m to=[0]
  let d: f32[B, N] = sub x, n
  let e: f32[B, N] = exp d
  let s: f32[B] = sum e axes=[1]
  let r: f32[B, N] = expand s to=[0]
  let y: f32[B, N] = div e, r
  ret y
}
"""


def replayed(file: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [BUILD / "broken-replay", "-", file]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)


def test_verify_sees_what_is_compiled(tmp_path: Path) -> None:
    """The branch for short rows alone loses a store."""
    file = tmp_path / "softmax.dlc"
    file.write_text(SOFTMAX)
    verify = {"DLC_VERIFY": "1", "DLC_DUMP_DIR": str(tmp_path)}
    assert replayed(file, **verify).returncode == 0
    seen = replayed(file, BROKEN="store", **verify)
    assert seen.returncode == 1 and "the pass join broke a rule of the language" in seen.stderr
    wide = tmp_path / "wide.dlc"
    wide.write_text(SOFTMAX.replace("N in 2..inf", "N in 64..inf"))
    assert replayed(wide, BROKEN="store", **verify).returncode == 0, "there is no if"


def test_a_layout_that_is_not_kept_is_refused(tmp_path: Path) -> None:
    """A kernel would read the view with strides that it no longer has."""
    refused(ROOT / "tests/passes/promise/views.dlc", tmp_path, "layout", "promise", "V28: slice")


def test_a_parameter_that_is_freed_and_kept_is_refused(tmp_path: Path) -> None:
    refused(
        ROOT / "tests/passes/promise/transposed.dlc", tmp_path, "given", "order", "V29: result 2 goes into"
    )


def refused(golden: Path, folder: Path, bug: str, rewrite: str, why: str) -> None:
    """The first program of a golden file runs; with the bug a rule refuses what the rewrite makes."""
    file = folder / "program.dlc"
    file.write_text(golden.read_text().partition("\n---\n")[0])
    verify = {"DLC_VERIFY": "1", "DLC_DUMP_DIR": str(folder)}
    assert replayed(file, **verify).returncode == 0
    assert replayed(file, BROKEN=bug).returncode == 0, "nothing but a rule sees it"
    seen = replayed(file, BROKEN=bug, **verify)
    assert seen.returncode == 1
    assert f"the pass {rewrite} broke a rule of the language: {why}" in seen.stderr


def test_a_result_in_place_that_is_read_later_is_refused(tmp_path: Path) -> None:
    """Without the rule the compile would not end: it retracts until loops read nothing late."""
    file = tmp_path / "program.dlc"
    file.write_text((ROOT / "tests/passes/retract/late.dlc").read_text().partition("\n---\n")[0])
    seen = replayed(file, BROKEN="over", DLC_VERIFY="1", DLC_DUMP_DIR=str(tmp_path))
    assert seen.returncode == 1
    assert "the pass retract broke a rule of the language: V21: kernel: 'x1' takes" in seen.stderr


REWRITES_DEF, MARKS_DEF = (
    (ROOT / "csrc" / name).read_text() for name in ("codegen/rewrites.def", "ir/marks.def")
)
REWRITES = re.findall(r"^REWRITE\( (\w+),", REWRITES_DEF, re.M)
MARKS = re.findall(r"^MARK\( *(\w+),", MARKS_DEF, re.M)
#: Rewrites that set no mark: the tests above have a bug of each. Three make two loops
#: of one or let two change places: the golden files of each run in the interpreter.
OTHERS = {"promise", "order", "retract", "join", "cut", "split", "reorder", "idle", "divide", "tile"}


def who_sets() -> dict[tuple[str, str], set[str]]:
    """A rewrite and a mark that it sets to the rules of that mark: the table of docs/code_generation.md."""
    page = (ROOT / "docs/code_generation.md").read_text().partition("## Who sets which mark")[2]
    sets, rules = set[tuple[str, str]](), defaultdict[str, set[str]](set)
    for row in re.findall(r"^\|( `.*)\|$", page.partition("\n## ")[0], re.M):
        marks, by, where = row.split("|")
        words = re.findall(r"`(\w+)`", by) + ["lower"] * ("lowering" in by)
        for mark in set(re.findall(r"`(\w+)`", marks)) & set(MARKS):
            rules[mark] |= set(re.findall(r"V\d\d", where))
            sets |= {(rewrite, mark) for rewrite in words if rewrite in REWRITES}
    return {(rewrite, mark): rules[mark] for rewrite, mark in sorted(sets)}


def test_each_rewrite_has_a_bug_that_is_refused() -> None:
    table = who_sets()
    assert {rewrite for rewrite, _ in table} == set(REWRITES) - OTHERS
    assert all(table.values())


def test_the_table_has_what_the_code_sets() -> None:
    """Each mark has a row, and each rewrite of a file those marks that the file sets by name."""
    files = re.findall(r"^REWRITE\( (\w+),.*\((\S+\.c)\)", REWRITES_DEF, re.M)
    table, sets = defaultdict[str, set[str]](set), set[tuple[str, str]]()
    for rewrite, file in files:
        table[file] |= {mark for by, mark in who_sets() if by == rewrite}
        path = ROOT / "csrc/codegen/schedule" / file
        for call in re.findall(r"let_mark(?:_with)?\(([^;]*);", path.read_text() if path.exists() else ""):
            sets |= {(file, mark) for mark in re.findall(r"MARK_(\w+)", call) if ", false)" not in call}
    assert len(sets) > 30
    assert not {(file, mark) for file, mark in sets if mark not in table[file]}
    page = (ROOT / "docs/code_generation.md").read_text().partition("## Who sets which mark")[2]
    rows = re.findall(r"^\| (`[^|]*)\|", page.partition("\n## ")[0], re.M)
    orders = re.findall(r"^MARK\( *(\w+), *ORDER", MARKS_DEF, re.M)
    assert {mark for row in rows for mark in re.findall(r"`(\w+)`", row)} == set(MARKS) - set(orders) | {
        "steps"
    }


@pytest.mark.parametrize(("rewrite", "mark"), who_sets())
def test_a_mark_that_is_set_where_it_may_not_stand_is_refused(rewrite: str, mark: str) -> None:
    """By the number of the rule that the documentation names; the same kernel without the bug is not."""
    kernel = {"parallel": "scatter", "steps": "product_rows", "primitive": "total"}.get(mark, "gather")
    command = [BUILD / "broken-emit", ROOT / f"tests/emit/{kernel}.dlc", "run=0"]
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    broken = os.environ | {"BROKEN": f"{rewrite}:{mark}"}
    done = subprocess.run(command, capture_output=True, text=True, env=broken, timeout=120)
    said = re.match(rf"the pass {rewrite} broke a rule of the language: (V\d\d): ", done.stdout)
    assert done.returncode == 1 and said, done.stdout
    assert said[1] in who_sets()[rewrite, mark]


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(
    ("bug", "rewrite", "program", "sizes"),
    [
        ("load", "join", "layernorm", ()),
        ("pack", "lower", "product_rows", ("B=1", "S=40", "D=3", "N=2")),
        ("idle", "idle", "over", ("integers=3",)),
        ("parts", "divide", "total", ("M=200", "N=300")),
        ("tiles", "tile", "product_types", ("M=16", "N=3", "K=300")),
        ("blocks", "lower", "product_rows", ("B=1", "S=40", "D=3", "N=2")),
    ],
)
def test_bisection_finds_the_rewrite(
    tmp_path: Path, bug: str, rewrite: str, program: str, sizes: tuple[str, ...]
) -> None:
    """Of a program that verifies and is wrong; a script like any other, which runs the compiler."""
    script = tmp_path / "script.py"
    command = [str(BUILD / "broken-emit"), str(ROOT / f"tests/emit/{program}.dlc"), "cc=0", *sizes]
    script.write_text(f"import subprocess, sys\nsys.exit(subprocess.run({command}).returncode)\n")
    done = run_module("dlc", "bisect", str(script), BROKEN=bug)
    assert done.returncode == 1 and re.search(r"Rewrite \d+ makes it wrong", done.stdout), done.stderr
    assert f"in the pass {rewrite}." in done.stdout
    sound = run_module("dlc", "bisect", str(script))
    assert "makes it wrong" not in sound.stdout
