"""A reduction of no elements had an array of none in exported C, which ISO C forbids."""

import subprocess
from pathlib import Path

import pytest

from dlc import ir
from tests.export.compilers import STRICT

TEXT = """dlc 1 graph
fn nothing(x: f32[0, 8]) -> (f32[8]) {
  let e: f32[0, 8] = exp x
  let s: f32[8] = sum e axes=[0]
  ret s
}
"""


@pytest.mark.parametrize("target", ["c", "device", "hls"])
def test_a_strict_compiler_takes_it(target: str, tmp_path: Path) -> None:
    ir.parse(TEXT).export_c(tmp_path, target=target)
    subprocess.run(["gcc", *STRICT, "-c", "m.c"], cwd=tmp_path, check=True)
