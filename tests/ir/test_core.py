"""The core of the language, tested in C: compiles the driver with the sources of the IR, runs it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=gnu11", "-O1", "-g", "-ffp-contract=off", "-fwrapv", "-Wall", "-Wextra"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_core(tmp_path: Path) -> None:
    program = tmp_path / "test_core"
    sources = [str(path) for path in sorted((ROOT / "csrc" / "ir").glob("*.c"))]
    driver = str(Path(__file__).with_suffix(".c"))
    sanitize = ["-fsanitize=address,undefined"] if os.environ.get("DLC_ASAN") else []
    compiled = subprocess.run(
        ["cc", *FLAGS, *sanitize, driver, *sources, "-lm", "-o", str(program)],
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
