"""Loops that gcc must make vectors of, as it says itself: what it takes for a branch is ten times as slow."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.dlc_opt import opt

CODEGEN = Path(__file__).parents[2] / "csrc/codegen"
FLAGS = [
    *("-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-fopenmp-simd", "-fPIC", "-shared", "-nostdlib", "-w", "-fopt-info-vec"),
]
COLUMNS = """dlc 1 graph

fn columns[B in 4000..9999, N in 4000..9999](x: {t}[B, N]) -> ({t}[N]) {{
  let a: {t}[B, N] = add x, x
  let r: {t}[N] = {op} a axes=[0]
  ret r
}}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="asks gcc")
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("op", ["sum", "prod", "amax", "amin"])
def test_columns(op: str, dtype: str, tmp_path: Path) -> None:
    text = opt(COLUMNS.format(op=op, t=dtype), "--pipeline", "--pass", "lower,schedule", "--emit", "c")
    source = tmp_path / "columns.c"
    source.write_text(f'#include "{CODEGEN}/prelude.h"\n{text}')
    command = ["gcc", *FLAGS, str(source), "-o", str(tmp_path / "columns.so")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    made = {int(line) for line in re.findall(r"columns\.c:(\d+):\d+: optimized: loop vectorized", said)}
    lines = source.read_text().splitlines()
    steps = [k + 1 for k, line in enumerate(lines) if "for (int64_t k = first; k < last; k++)" in line]
    assert steps and set(steps) <= made
