"""Exported programs on their way to machine code: the C compilers there are, and what is asked of each."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

STRICT = ["-std=c11", "-O3", "-Wall", "-Wextra", "-Wpedantic", "-Wvla", "-Werror"]
NATIVE = [*STRICT, "-O1", "-march=native"]
CLANG = next((found for name in ("clang", "clang-16", "clang-14") if (found := shutil.which(name))), None)
TCC = shutil.which("tcc")


def build(folder: Path, *flags: str, cc: str = "gcc", name: str = "m", out: str = "check") -> Path:
    """Compiles the program and its check; fails with what the compiler says."""
    sources = [str(folder / f"{name}.c"), str(folder / f"{name}_check.c")]
    done = subprocess.run([cc, *flags, "-o", str(folder / out), *sources], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:2000]
    return folder / out


def passes(program: Path) -> str:
    """Runs the check, which has to find the same bits; returns what it says."""
    done = subprocess.run([str(program)], cwd=program.parent, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr[:2000]
    return done.stdout
