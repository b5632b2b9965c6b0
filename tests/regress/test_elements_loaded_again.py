"""A loop cut into stages loaded an operand again after a result that takes its memory was stored."""

import subprocess
from pathlib import Path

from tests.emit.written import PROGRAM

KEPT = """dlc 1 kernels

fn f[N in 1..inf](x: f32[N]) -> (f32[N], f32[N]) {
  let y: f32[N] over x, z: f32[N] = kernel {
    let e: f32[N] = exp x
    let l: f32[N] = log1p e
    let t: f32[N] = tanh l
    let k: f32[N] = slice x axis=0 start=0 step=1
    ret t, k
  }
  ret y, z
}
"""


def test_an_operand_that_is_a_result_too_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "kept.dlc"
    path.write_text(KEPT)
    done = subprocess.run([PROGRAM, path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
