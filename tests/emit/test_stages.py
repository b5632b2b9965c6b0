"""Loops in stages that no schedule has today but the rules allow: their C compiles."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dlc_opt import opt

CSRC = Path(__file__).parents[2] / "csrc"
HEADERS = [
    "ir/math/prelude.h",
    *(f"codegen/emit/prelude_{part}.h" for part in ("reduce", "transpose", "scan")),
]
PLACES = """dlc 1 loops

fn places[N in 1..inf](x: f32[N]) -> (f32[N]) {
  let y: f32[N] = kernel {
    for i in N vector distribute=256 {
      let a: f32 = load x[i]
      let s: i64 = size dim=i
      let q: f32 = cast s
      let b: f32 = exp a
      let d: f32 = add b, q
      let e: f32 = log d stage=2
      let p: f32 = cast s stage=2
      let c: f32 = mul e, p stage=2
      store y[i] = c
    }
  }
  ret y
}
"""
BOTH = """dlc 1 loops

fn both[N in 1..inf](x: f64[8, N]) -> (f64[8, N], f64[8, N]) {
  let y: f64[8, N], z: f64[8, N] = kernel {
    for i in 8 recurrences=8 {
      let run: f64[1] = buffer
      let ron: f64[1] = buffer
      store run[0] = 0.0
      store ron[0] = 0.0
      for j in N distribute=128 {
        let a: f64 = load x[i, j]
        let b: f64 = exp a
        let r: f64 = load run[0]
        let s: f64 = add r, b stage=2 FIRST
        store run[0] = s
        let r2: f64 = load ron[0]
        let s2: f64 = add r2, a stage=2 SECOND
        store ron[0] = s2
        store y[i, j] = s
        store z[i, j] = s2
      }
    }
  }
  ret y, z
}
"""


def compiled(text: str, folder: Path) -> str:
    """The C of a function in the loops stage, which gcc accepts."""
    if shutil.which("gcc") is None:
        pytest.skip("asks gcc")
    emitted = opt(text, "--pass", "cc", "--emit", "cc")
    source = folder / "unit.c"
    source.write_text("".join(f'#include "{CSRC / name}"\n' for name in HEADERS) + emitted)
    command = ["gcc", "-std=gnu11", "-fopenmp-simd", "-w", "-fsyntax-only", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return emitted


def test_a_place_is_made_again_in_each_stage(tmp_path: Path) -> None:
    assert compiled(PLACES, tmp_path).count("const int64_t s = i;") == 2


@pytest.mark.parametrize("marks", [("across", ""), ("", "across")], ids=["across_first", "across_second"])
def test_one_operation_is_across_and_not(marks: tuple[str, str], tmp_path: Path) -> None:
    """Each has a routine of its own: they take other arguments."""
    text = BOTH.replace(" FIRST", f" {marks[0]}").replace(" SECOND", f" {marks[1]}")
    emitted = compiled(text, tmp_path)
    assert emitted.count("run_add_f64(") == emitted.count("run_add_f64_across(") == 2
