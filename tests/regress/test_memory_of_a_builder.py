"""A builder without memory was taken for one that cannot build the node, which became a call of torch."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.in_turn(3)
@pytest.mark.skipif(not (ROOT / "build/inject/site/dlc").exists(), reason="needs `make inject`")
def test_what_has_no_memory_is_no_call() -> None:
    command = [sys.executable, "-m", "tests.alloc.every", "--only", "compile-own", "--last", "12"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
