"""Loops in stages that no schedule has today but the rules allow: they compile, and are right."""

import subprocess
from pathlib import Path

import pytest

from tests.emit.written import PROGRAM

PLACES = """dlc 1 loops

fn places[N in 1..inf](x: f32[N]) -> (f32[N]) {
  let y: f32[N] = kernel {
    for i in N vector distribute=256 {
      let a: f32 = load x[i]
      let s: i64 = size dim=i
      let q: f32 = cast s
      let b: f32 = exp a
      let d: f32 = add b, q array=256
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
        let s: f64 = add r, b stage=2 array=128 FIRST
        store run[0] = s
        let r2: f64 = load ron[0]
        let s2: f64 = add r2, a stage=2 array=128 SECOND
        store ron[0] = s2
        store y[i, j] = s
        store z[i, j] = s2
      }
    }
  }
  ret y, z
}
"""


def check(text: str, folder: Path) -> None:
    """The loops as they are, in all targets and by the interpreter, over sizes around a tile."""
    path = folder / "loops.dlc"
    path.write_text(text)
    for n in (1, 127, 128, 255, 256, 257, 700):
        done = subprocess.run([PROGRAM, path, f"N={n}"], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_place_is_made_again_in_each_stage(tmp_path: Path) -> None:
    check(PLACES, tmp_path)


@pytest.mark.parametrize("marks", [("across", ""), ("", "across")], ids=["across_first", "across_second"])
def test_one_operation_is_across_and_not(marks: tuple[str, str], tmp_path: Path) -> None:
    """Each has a routine of its own: they take other arguments."""
    check(BOTH.replace(" FIRST", f" {marks[0]}").replace(" SECOND", f" {marks[1]}"), tmp_path)
