"""python -m dlc bisect finds the first bad rewrite."""

import subprocess
import sys
from pathlib import Path

import pytest

from dlc import bisect

GOOD = """dlc 1 graph

fn softmax[B in 2..inf, N in 8..4096 % 8](x: f32[B, N], h: bf16[N], i: i64[N]) -> (f32[B, N]) {
  let c: f32[N] = cast h
  let j: f32[N] = cast i
  let s: f32[N] = add c, j
  let b: f32[B, N] = expand s to=[1]
  let e: f32[B, N] = exp x
  let m: f32[B, N] = mul e, b
  let y: f32[B, N] = tanh m
  ret y
}
"""


@pytest.mark.parametrize("first", [0, 1, 2, 3, 7, 8, 9, 100])
def test_first_bad(first: int) -> None:
    assert bisect.first_bad(lambda fuel: fuel is not None and fuel < first) == first


def test_nothing_bad() -> None:
    assert bisect.first_bad(lambda fuel: True) is None


def command(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dlc", "bisect", str(file)], capture_output=True, text=True, timeout=120
    )


def test_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nsys.exit(int(os.environ.get('DLC_FUEL', 99)) >= 7)\n")
    done = command(script)
    assert done.returncode == 1
    assert "Rewrite 7 makes it wrong" in done.stdout


def test_text(tmp_path: Path) -> None:
    text = tmp_path / "good.dlc"
    text.write_text(GOOD)
    done = command(text)
    assert done.returncode == 0, done.stderr
    assert "nothing to find" in done.stdout


def test_no_fuel_is_no_rewrite() -> None:
    none, all_ = bisect.rewritten(GOOD, 0), bisect.rewritten(GOOD, None)
    assert none.stage == all_.stage == "kernels"
    assert none.text.count("kernel {") > all_.text.count("kernel {")
