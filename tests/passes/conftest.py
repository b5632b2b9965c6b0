"""Drivers in C: programs of this folder, linked with csrc/ir and csrc/fusion."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.objects import CSRC, SANITIZE, objects

HERE = Path(__file__).parent
FLAGS = [f"-I{CSRC}", "-std=gnu11", "-O1", "-g", "-ffp-contract=off", "-fwrapv", *SANITIZE]


@pytest.fixture
def drive(tmp_path: Path) -> Callable[[str], None]:
    """Builds and runs the driver of a name; what it finds wrong fails the test."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")

    def run(name: str) -> None:
        program = tmp_path / name
        command = ["cc", *FLAGS, str(HERE / f"{name}.c"), *objects("ir", "fusion"), "-lm"]
        subprocess.run([*command, "-o", str(program)], check=True)
        ran = subprocess.run([program], capture_output=True, text=True, env={"DLC_DUMP_DIR": str(tmp_path)})
        assert ran.returncode == 0, ran.stderr

    return run
