"""python -m dlc bisect finds the first bad rewrite."""

import subprocess
from pathlib import Path

import pytest

from dlc import bisect
from tests.fresh import run_module

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


def test_a_failure_that_cannot_be_repeated_ends() -> None:
    tried: list[int | None] = []

    def good(fuel: int | None) -> bool:
        tried.append(fuel)
        return fuel is not None

    with pytest.raises(bisect.Unrepeatable):
        bisect.first_bad(good)
    assert len(tried) < 30


def command(file: Path) -> subprocess.CompletedProcess[str]:
    return run_module("dlc", "bisect", str(file))


def test_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nsys.exit(int(os.environ.get('DLC_FUEL', 99)) >= 7)\n")
    done = command(script)
    assert done.returncode == 1
    assert "Rewrite 7 makes it wrong" in done.stdout


def test_a_script_that_is_wrong_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nsys.exit('DLC_FUEL' not in os.environ)\n")
    done = command(script)
    assert done.returncode == 1 and "cannot be repeated" in done.stdout


def test_a_script_that_is_wrong_anyway_says_why(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('begun')\nimport a_module_that_is_missing\n")
    done = command(script)
    assert done.returncode == 1 and "the passes are not the cause" in done.stdout
    assert done.stderr.count("No module named 'a_module_that_is_missing'") == 1


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"dlc 1 graph\nfn nope", ":2:8: expected '('"),
        (GOOD.replace("exp x", "exp c").encode(), "V08"),
        (b"\xff", "utf-8"),
    ],
)
def test_a_text_that_is_no_program(tmp_path: Path, text: bytes, said: str) -> None:
    file = tmp_path / "program.dlc"
    file.write_bytes(text)
    done = command(file)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.startswith(f"{file}:") and said in done.stderr


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
