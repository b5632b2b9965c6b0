"""gcc and clang have nothing to say: `make lint` asks both of all sources, a run of the tests of some."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = 60


def compiler(name: str) -> str | None:
    """On the PATH, or where Debian has one of several versions."""
    found = sorted(str(path) for path in Path("/usr/lib").glob(f"llvm-*/bin/{name}"))
    return shutil.which(name) or (found[-1] if found else None)


@pytest.mark.in_turn(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_a_compiler_has_nothing_to_say(name: str, part: int, tmp_path: Path) -> None:
    """With the flags of the build; what is generated on the way is left to `make lint`."""
    command = compiler(name)
    if command is None:
        pytest.skip(f"needs {name}, and finds none in PATH")
    options = [
        f"B={tmp_path}",
        f"CC={command}",
        "WERROR=-Werror",
        "SAN=-fsyntax-only",
        f"PYTHON={sys.executable}",
    ]
    make = ["make", "-n", "--no-print-directory", "-f", "csrc/build.mk", "check", *options]
    said = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    lines = [line for line in said.splitlines() if line.startswith(command) and " -c " in line]
    sources = [(line, line.partition(" -c ")[2].split()[0]) for line in lines]
    known = sorted(line for line, source in sources if (ROOT / source).exists())
    assert len(known) > 150
    for line in known[part::PARTS]:
        done = subprocess.run(
            line.replace("-MMD -MP ", ""), shell=True, cwd=ROOT, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, ""), line
