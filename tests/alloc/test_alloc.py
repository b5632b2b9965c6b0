"""Every allocation of a compile and of a call fails once: a part of them in each run (every.py)."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.alloc.limit import LEVELS
from tests.shards import Shard

ROOT = Path(__file__).resolve().parents[2]


PARTS = {
    "compile": 20,
    "call": 1,
    "compile-own": 60,
    "compile-own-pieces": 2000,
    "call-own": 4,
    "compile-python": 200,
}


@pytest.mark.skipif(not (ROOT / "build/inject/site/dlc").exists(), reason="needs `make inject`")
def test_every_allocation(shard: Shard) -> None:
    """In one process: to capture the graphs takes longest."""
    command = [sys.executable, "-m", "tests.alloc.every"]
    for name, part in PARTS.items():
        command += ["--only", f"{name}:{shard.number}/{part}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert done.stdout.count(" allocations") == len(PARTS)


@pytest.fixture(scope="module")
def limited() -> subprocess.CompletedProcess[str]:
    """One process that tries all levels, each in a child."""
    command = [sys.executable, "-m", "tests.alloc.limit"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("level", range(LEVELS))
def test_limits_of_address_space(level: int, limited: subprocess.CompletedProcess[str]) -> None:
    """Ever less of it: a right result, MemoryError or torch's own error, and never a crash."""
    assert f"{level} ended with 0" in limited.stdout.splitlines(), limited.stdout + limited.stderr[-3000:]
