"""The C tests of machine code, one process each: build/test-jit names and runs them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.shards import Shard

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "test-jit"
TABLE = (ROOT / "tests/jit/jit_test.h").read_text()
NAMES = [name for name in re.findall(r"\bTEST\((\w+)\)", TABLE) if name != "name"]


def test_the_names_are_the_program_s() -> None:
    done = subprocess.run([PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == NAMES


def test_sha256_without_its_instructions() -> None:
    """test_jit takes those of the processor, where it has any."""
    done = subprocess.run([PROGRAM, "sha256"], env={**os.environ, "DLC_ISA": "sse2"}, timeout=120)
    assert done.returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_jit(name: str, shard: Shard) -> None:
    """Folders are swapped with another rest in the next run; `make swaps` does all rests, a million looks."""
    environment = {**os.environ, "SWAP_SHARD": str(shard.number)}
    done = subprocess.run([PROGRAM, name], capture_output=True, text=True, timeout=120, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
