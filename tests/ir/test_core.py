"""The core of the language, tested in C: links each driver with the objects of the IR, runs it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.objects import CSRC, ROOT, SANITIZE, objects

HERE = Path(__file__).resolve().parent
FLAGS = [f"-I{CSRC}", "-std=gnu11", "-O1", "-g", "-ffp-contract=off", "-fwrapv", *SANITIZE]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("driver", ["test_core", "test_algebra"])
def test_driver(driver: str, tmp_path: Path) -> None:
    program = tmp_path / driver
    compiled = subprocess.run(
        ["cc", *FLAGS, str(HERE / f"{driver}.c"), *objects("ir"), "-lm", "-o", str(program)],
        capture_output=True,
        text=True,
    )
    assert compiled.returncode == 0, compiled.stderr
    shown = tmp_path / "shown.dlc"  # the program that the documentation shows
    shown.write_text((ROOT / "docs" / "ir.md").read_text().split("```\n")[1])
    programs = [str(path) for path in [shown, *sorted((HERE / "valid").glob("*.dlc"))]]
    ran = subprocess.run([str(program), "40", "1", *programs], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
