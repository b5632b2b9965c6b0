"""Schedules as text (csrc/codegen/schedule/nest/written.c): printed, given back, edited, refused."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.dlc_opt import PROGRAM, opt

ROOT = Path(__file__).resolve().parents[2]
KERNELS = sorted((ROOT / "tests/emit").glob("*.dlc"))
TARGETS = ("tcc", "cc", "c")

TRANSPOSE = """dlc 1 loops

fn transpose[N, M](x: f32[N, M]) -> (f32[M, N]) {
  let y: f32[M, N] = kernel {
    for i in N parallel tile {
      for j in M vector {
        let a: f32 = load x[i, j]
        store y[j, i] = a
      }
    }
  }
  ret y
}
"""


def scheduled(program: str, lines: str, folder: Path, *options: str) -> str:
    file = folder / "schedule.txt"
    file.write_text(lines)
    return opt(program, "--schedule", str(file), *options)


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_what_is_printed_gives_the_same_loops(path: Path, tmp_path: Path) -> None:
    """Of all targets, and of each."""
    program = path.read_text()
    shared = opt(program, "--pass", "lower,schedule")
    lines = opt(shared, "--emit", "schedule")
    assert scheduled(shared, lines, tmp_path) == shared
    for target in TARGETS:
        loops = opt(shared, "--pass", target)
        lines = opt(shared, "--pass", target, "--emit", "schedule")
        assert lines.startswith(f"target {target}\n")
        assert scheduled(shared, lines, tmp_path, "--pass", target) == loops


def loops_of(text: str) -> list[str]:
    """The lines of loops, without their braces."""
    return [line.strip(" {") for line in text.splitlines() if re.match(r"\s+(for|reduce) ", line)]


@pytest.mark.parametrize(
    ("lines", "loops"),
    [
        ("for i parallel", ["for i in N parallel", "for j in M"]),
        ("# nothing\n\n", ["for i in N parallel tile", "for j in M vector"]),
        ("target cc\nfor j width=64", ["for i in N parallel tile", "for j in M vector"]),
        ("for i reorder\nfor j parallel", ["for j in M parallel", "for i in N"]),
        (
            "for j split=16  # by columns\n  for j_in vector",
            ["for i in N", "for j_out in (M + 15) // 16", "for j_in in min(M - 16*j_out, 16) vector"],
        ),
        (
            "for j split=16\nfor i split=8 reorder\nfor i_out parallel\nfor j_out parallel\n",
            [
                "for i_out in (N + 7) // 8 parallel",
                "for j_out in (M + 15) // 16 parallel",
                "for i_in in min(N - 8*i_out, 8)",
                "for j_in in min(M - 16*j_out, 16)",
            ],
        ),
        (
            "for i split=64\nfor i_in split=8",
            [
                "for i_out in (N + 63) // 64",
                "for i_in_out in (min(N - 64*i_out, 64) + 7) // 8",
                "for i_in_in in min(min(N - 64*i_out, 64) - 8*i_in_out, 8)",
                "for j in M",
            ],
        ),
    ],
)
def test_lines(lines: str, loops: list[str], tmp_path: Path) -> None:
    """All marks of the loops are those of the lines, and the results stay."""
    assert loops_of(scheduled(TRANSPOSE, lines, tmp_path)) == loops
    for seed in "12":
        scheduled(TRANSPOSE, lines, tmp_path, "--emit", "none", "--eval", seed)


STENCIL = """dlc 1 loops

fn stencil[N, M](x: f32[N + 1, M + 1]) -> (f32[N + 1, M + 1]) {
  let y: f32[N + 1, M + 1] = kernel {
    for r in N + 1 {
      for c in M + 1 {
        let t: f32 = load x[r, c]
        store y[r, c] = t
      }
    }
    for i in N {
      for j in M {
        let a: f32 = load y[i, j + 1]
        store y[i + 1, j] = a
      }
    }
    for k in M {
      let s: f32 = reduce sum l in N {
        let b: f32 = load y[l, k]
        ret b
      }
      store y[N, k] = s
    }
  }
  ret y
}
"""


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("for q vector", "there is no 'for q' here; the loops are r, c, i, j, k, l"),
        ("reduce i vector", "there is no 'reduce i' here"),
        ("loop i vector", "a line begins with for, reduce, let, store, target or kernel"),
        ("for", "it names no let"),
        ("for i vectr", "'vectr' is no mark: docs/ir.md has them"),
        ("for i vector=3", "'vector' has no value"),
        ("for i split", "'split' needs a value: split=8"),
        ("for i split=0", "behind = stands a number from 1 to 2147483647"),
        ("for i split=-4", "behind = stands a number from 1 to 2147483647"),
        ("for i jam=2", "'jam' is of one target: it stands behind a line such as `target cc`"),
        ("for i micro", "a schedule does not set 'micro'"),
        ("reduce l lanes", "'lanes' is part of the program, not of a schedule"),
        ("reduce l vector", "V06: reduce: 'vector' is not a mark of 'reduce'"),
        ("target gpu", "there is no such target"),
        ("kernel 1", "`kernel k0` is the first kernel of the program"),
        ("store y#9 nontemporal=4", "there is no 'store y' here"),
        ("for j parallel", "V18: for: parallel marks a loop within one that is not"),
        ("for k reorder", "V55: for: reorder marks a loop whose body is not one loop alone"),
        ("for i parallel", "V18: for: parallel marks a loop whose iterations need each other"),
        (
            "for i reorder",
            "V55: for: reorder marks loops whose order two accesses need: store y[i + 1, j], then load "
            "y[i, j + 1]: i later (1), j earlier (-1)",
        ),
    ],
)
def test_a_line_that_is_refused_is_named(lines: str, why: str, tmp_path: Path) -> None:
    """With its number, and the rule that it breaks, whatever stands before and behind it."""
    file = tmp_path / "schedule.txt"
    text = f"# a schedule\nfor r parallel\nfor c vector\n{lines}\nfor k parallel vector\n"
    if "kernel" in lines or "target" in lines or "micro" in lines:
        text = f"# a schedule\nfor r parallel\nfor c vector\n{lines}\n"
    file.write_text(text)
    command = [PROGRAM, "--schedule", str(file), "-"]
    done = subprocess.run(command, input=STENCIL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(f"dlc-opt: line 4 of the schedule, `{lines}`: {why}"), done.stderr


def test_marks_that_stand_together_are_verified_together(tmp_path: Path) -> None:
    """The stages of a loop are marked behind it, and one more line at the end is at fault, not these."""
    program = (ROOT / "tests/emit/stages.dlc").read_text()
    shared = opt(program, "--pass", "lower,schedule")
    lines = opt(shared, "--pass", "cc", "--emit", "schedule")
    assert " stage=" in lines
    assert scheduled(shared, lines, tmp_path, "--pass", "cc") == opt(shared, "--pass", "cc")
    file = tmp_path / "wrong.txt"
    first = re.search(r"^for (\w+)", lines, re.MULTILINE)
    assert first
    file.write_text(f"{lines}for {first[1]} rolled strip=3\n")
    command = [PROGRAM, "--pass", "cc", "--schedule", str(file), "-"]
    done = subprocess.run(command, input=shared, capture_output=True, text=True, timeout=60)
    assert f"line {lines.count(chr(10)) + 1} of the schedule" in done.stderr, done.stderr


TWO = """dlc 1 loops

fn two[N](x: f32[N], y: f32[N]) -> (f32[N], f32[N]) {
  let a: f32[N] = kernel {
    for i in N parallel vector {
      let s: f32 = load x[i]
      store a[i] = s
    }
  }
  let b: f32[N] = kernel {
    for j in N parallel vector {
      let t: f32 = load y[j]
      store b[j] = t
    }
  }
  ret a, b
}
"""


@pytest.mark.parametrize(
    ("lines", "loops"),
    [
        ("for i parallel", ["for i in N parallel", "for j in N"]),
        ("kernel k1\nfor j parallel", ["for i in N parallel vector", "for j in N parallel"]),
        ("kernel k0\nfor i vector", ["for i in N vector", "for j in N parallel vector"]),
        ("for i\nkernel k1\nfor j", ["for i in N", "for j in N"]),
        ("kernel k1\nfor j vector\nkernel k0\nfor i", ["for i in N", "for j in N vector"]),
        (
            "kernel k1\nfor j split=8",
            ["for i in N parallel vector", "for j_out in (N + 7) // 8", "for j_in in min(N - 8*j_out, 8)"],
        ),
        (
            "kernel k1\ntarget cc\nfor j width=64\nkernel k0\nfor i",
            ["for i in N", "for j in N parallel vector"],
        ),
        ("kernel k1\n# nothing\n", ["for i in N parallel vector", "for j in N parallel vector"]),
    ],
)
def test_lines_behind_a_kernel_are_of_it_alone(lines: str, loops: list[str], tmp_path: Path) -> None:
    """The others keep what they have."""
    assert loops_of(scheduled(TWO, lines, tmp_path)) == loops


def test_lines_of_a_target_behind_a_kernel_are_of_it_alone(tmp_path: Path) -> None:
    lines = "kernel k1\ntarget cc\nfor j width=64\n"
    found = loops_of(scheduled(TWO, lines, tmp_path, "--pass", "cc"))
    assert "for j in N parallel vector width=64" in found and not any("width=64" in x for x in found[:1])


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("kernel k2\nfor i", "line 1 of the schedule, `kernel k2`: the program has 2 kernels"),
        (
            "\nkernel k0\nfor j",
            "line 3 of the schedule, `for j`: there is no 'for j' here; the loops are i\n",
        ),
        (
            "for j\nkernel k1\nfor j",
            "line 1 of the schedule, `for j`: there is no 'for j' here; the loops are i\n",
        ),
    ],
)
def test_a_kernel_has_no_loops_of_others(lines: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "schedule.txt"
    file.write_text(lines)
    command = [PROGRAM, "--schedule", str(file), "-"]
    done = subprocess.run(command, input=TWO, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith(f"dlc-opt: {why}"), done.stderr


def changed(shared: str) -> dict[str, str]:
    """By change, the lines that it makes."""
    names_and_lines = re.split(r"^# (.*)\n", opt(shared, "--pass", "cc", "--emit", "changes"), flags=re.M)[1:]
    changes = dict(zip(names_and_lines[::2], names_and_lines[1::2], strict=True))
    assert 2 * len(changes) == len(names_and_lines)
    return changes


@pytest.mark.parametrize("path", KERNELS[::8], ids=lambda path: path.stem)
def test_what_tune_tries_are_schedules(path: Path, tmp_path: Path) -> None:
    """Each change gives lines, other ones than those of the loops, that the loops take as they are."""
    shared = opt(path.read_text(), "--pass", "lower,schedule")
    usual = opt(shared, "--pass", "cc", "--emit", "schedule")
    changes = changed(shared)
    assert changes
    for lines in changes.values():
        assert lines != usual
        if lines != "target cc\n":  # of no lines dlc decides
            assert scheduled(shared, lines, tmp_path, "--pass", "cc", "--emit", "schedule") == lines


def nests(shared: str) -> dict[str, str]:
    """By change of loops, the lines that it makes."""
    names_and_lines = re.split(r"^# (.*)\n", opt(shared, "--emit", "changes"), flags=re.M)[1:]
    return dict(zip(names_and_lines[::2], names_and_lines[1::2], strict=True))


@pytest.mark.parametrize("path", KERNELS[::8], ids=lambda path: path.stem)
def test_other_loops_that_tune_tries_are_schedules(path: Path, tmp_path: Path) -> None:
    """The lines say all of the loops that they make; the rewrites of the target take these."""
    shared = opt(path.read_text(), "--pass", "lower,schedule")
    for lines in nests(shared).values():
        made = scheduled(shared, lines, tmp_path)
        assert made != shared
        marks = [line for line in lines.splitlines(True) if " split=" not in line and " reorder" not in line]
        assert opt(made, "--emit", "schedule") == "".join(marks)
        opt(made, "--pass", "cc", "--emit", "none")


def test_a_nest_changes_as_its_row_says() -> None:
    """A loop of too few iterations is not split, and one alone has none to change places with."""
    lines = nests(TRANSPOSE.replace("[N, M](", "(").replace("N", "100").replace("M", "20"))
    assert set(lines) == {"reorder of loop 0", "split_64 of loop 0", "block_64 of loop 0"}
    assert lines["reorder of loop 0"] == "for i reorder\nfor j parallel tile\nfor i vector\n"
    assert lines["split_64 of loop 0"].startswith("for i split=64\nfor i_out parallel\n")
    assert loops_of(TRANSPOSE)[0] == "for i in N parallel tile"


def test_a_change_takes_what_stands_beside(tmp_path: Path) -> None:
    """Its conditions and its parts, in the loops that run at the typical sizes: others stay."""
    lines = changed(opt((ROOT / "tests/emit/softmax.dlc").read_text(), "--pass", "lower,schedule"))
    usual = "for i24 jam=2 jam_elements=262144 jam_row=256\nreduce i25 joint parts=4 fill\n"
    assert usual in lines["prefetch-"] and "for i4 jam=2 jam_elements" in lines["jam-"]
    assert usual.replace("jam_row=256", "jam_row=256 narrow") not in lines["narrow+1"]
    assert usual.replace(" jam=2", " narrow jam=2") in lines["narrow+1"]
    assert "\nreduce i25 parts=4 fill\n" in lines["jam-"] and "for i24" not in lines["jam-"]
    assert "for i24 jam=2\nreduce i25 joint parts=4 fill\n" in lines["jam=2"]
    assert "\nstore y#9 nontemporal=1 array=16\n" in lines["nontemporal=1"]


def test_what_is_in_arrays_has_the_width(tmp_path: Path) -> None:
    """Of the iterations that run at a time."""
    lines = changed(opt((ROOT / "tests/emit/columns.dlc").read_text(), "--pass", "lower,schedule"))
    for change, width in {"width*2": 512, "width/2": 128}.items():
        loop = re.search(rf"^for i\d+ width={width}\n((?!for ).*\n)*", lines[change], re.M)
        assert loop and set(re.findall(r"array=(\d+)", loop[0])) == {str(width)}


def test_flags_of_the_c_compiler_are_of_its_target(tmp_path: Path) -> None:
    shared = opt(TRANSPOSE, "--pass", "schedule")
    assert " unroll" in scheduled(shared, "target cc\nfor i unroll", tmp_path, "--pass", "cc")
    with pytest.raises(AssertionError, match="'unroll' is a flag of a C compiler"):
        scheduled(shared, "target tcc\nfor i unroll", tmp_path, "--pass", "tcc")
