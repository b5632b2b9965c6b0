"""Sixteen threads that compile, call, change sizes, release and forget; `make tsan` runs them longer."""

import os
import subprocess
from pathlib import Path

from tests.shards import Shard

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "test-threads"


def test_threads(shard: Shard) -> None:
    command = [PROGRAM, "3", "16", str(shard.number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 wrong" in done.stdout
