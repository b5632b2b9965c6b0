"""The core of the language, tested in C: compiles each driver with the sources of the IR, runs it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
IR = ROOT / "csrc" / "ir"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
FLAGS = [f"-I{ROOT / 'csrc'}", "-std=gnu11", "-O1", "-g", "-ffp-contract=off", "-fwrapv"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("driver", ["test_core", "test_algebra"])
def test_driver(driver: str, tmp_path: Path) -> None:
    program = tmp_path / driver
    sources = [str(path) for path in sorted(IR.rglob("*.c"))]
    sanitize = SANITIZE if os.environ.get("DLC_ASAN") else []
    compiled = subprocess.run(
        ["cc", *FLAGS, *sanitize, str(HERE / f"{driver}.c"), *sources, "-lm", "-o", str(program)],
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stderr
    shown = tmp_path / "shown.dlc"  # the program that the documentation shows
    shown.write_text((ROOT / "docs" / "ir.md").read_text().split("```\n")[1])
    programs = [str(path) for path in [shown, *sorted((HERE / "valid").glob("*.dlc"))]]
    ran = subprocess.run([str(program), "40", "1", *programs], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
