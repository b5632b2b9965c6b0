"""A number, a size or None as any argument of what is compiled: eager's result where eager takes it, and the
process goes on."""

import subprocess
import sys

import pytest

PARTS = 16


@pytest.mark.in_turn(16)
@pytest.mark.parametrize("part", range(PARTS))
def test_any_operand(part: int) -> None:
    program = [sys.executable, "-m", "tests.capture.any_operand", f"{part}/{PARTS}"]
    run = subprocess.run(program, capture_output=True, text=True, check=False)
    called = run.stderr.split("Fatal")[0].splitlines()[-1:]
    assert run.returncode == 0, f"the process ended in{called}: {run.stderr[-600:]}"
    different = [line for line in run.stdout.splitlines() if not line.startswith("without arguments")]
    assert different == []
