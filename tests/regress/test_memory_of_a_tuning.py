"""A call that tunes had no way back where there was no memory for the tuning itself."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.in_turn(3)
@pytest.mark.skipif(not (ROOT / "build/inject/site/dlc").exists(), reason="needs `make inject`")
def test_a_call_that_tunes() -> None:
    command = [sys.executable, "-m", "tests.alloc.every", "--only", "tuned"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
