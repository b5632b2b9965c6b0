"""An if marked phase whose loops compute different things: each loop has a function of its own.

The rewrite that makes such loops copies one. A condition around a copy may let a size in it be written in a
simpler way, which is right only for the sizes of that copy.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.emit.written import PROGRAM

LOOPS = """dlc 1 loops

fn f[B in 1..inf, N in 1..64](x: f32[B, N]) -> (f32[B]) {{
  let y: f32[B] = kernel {{
    if N <= 16 phase {{
      for i0 in B parallel {{
        let s0: f32 = reduce sum j0 in N lanes {{
          let a0: f32 = load x[i0, j0]
          let b0: f32 = mul a0, 2.0
          let c0: f32 = sub b0, a0
          ret c0
        }}
        store y[i0] = s0
      }}
    }} else {{
      for i1 in B parallel {{
        let s1: f32 = reduce {op} j1 in {extent} lanes {{
          let a1: f32 = load x[i1, {at}]
          let b1: f32 = mul a1, {number}
          let c1: f32 = sub {operands}
          ret c1
        }}
        store y[i1] = s1
      }}
    }}
  }}
  ret y
}}
"""

SAME = {"op": "sum", "extent": "N", "at": "j1", "number": "2.0", "operands": "b1, a1"}


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"extent": "N - 1"},
        {"at": "0"},
    ],
    ids=str,
)
def test_each_loop_is_its_own(other: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "phase.dlc"
    path.write_text(LOOPS.format(**SAME | other))
    done = subprocess.run([PROGRAM, path], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("other", [{"number": "3.0"}, {"operands": "a1, b1"}, {"op": "amax"}], ids=str)
def test_loops_of_other_operations_are_no_phase(other: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "phase.dlc"
    path.write_text(LOOPS.format(**SAME | other))
    done = subprocess.run([PROGRAM, path], capture_output=True, text=True, timeout=300)
    assert done.returncode != 0 and "V25" in done.stdout + done.stderr
