"""Drivers in C: programs of this folder, linked with csrc/ir and csrc/fusion."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CSRC = HERE.parents[1] / "csrc"
FLAGS = [f"-I{CSRC}", "-std=gnu11", "-O1", "-g", "-ffp-contract=off", "-fwrapv"]


def flags() -> list[str]:
    return [*FLAGS, *(["-fsanitize=address,undefined"] if os.environ.get("DLC_ASAN") else [])]


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The objects of the two folders, compiled once."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("objects")
    sources = [str(p) for part in ("ir", "fusion") for p in sorted((CSRC / part).rglob("*.c"))]
    subprocess.run(["cc", *flags(), "-c", *sources], cwd=folder, check=True)
    return [str(p) for p in sorted(folder.glob("*.o"))]


@pytest.fixture
def drive(objects: list[str], tmp_path: Path) -> Callable[[str], None]:
    """Builds and runs the driver of a name; what it finds wrong fails the test."""

    def run(name: str) -> None:
        program = tmp_path / name
        source = str(HERE / f"{name}.c")
        subprocess.run(["cc", *flags(), source, *objects, "-lm", "-o", str(program)], check=True)
        ran = subprocess.run([program], capture_output=True, text=True, env={"DLC_DUMP_DIR": str(tmp_path)})
        assert ran.returncode == 0, ran.stderr

    return run
