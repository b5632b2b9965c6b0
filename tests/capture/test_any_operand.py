"""A number, a size or None as any argument of what is compiled: eager's result where eager takes it, and the
process goes on."""

import pytest

from tests.fresh import run_module

PARTS = 16


@pytest.mark.in_turn(16)
@pytest.mark.parametrize("part", range(PARTS))
def test_any_operand(part: int) -> None:
    run = run_module("tests.capture.any_operand", f"{part}/{PARTS}")
    called = run.stderr.split("Fatal")[0].splitlines()[-1:]
    assert run.returncode == 0, f"the process ended in{called}: {run.stderr[-600:]}"
    different = [line for line in run.stdout.splitlines() if not line.startswith("without arguments")]
    assert different == []
