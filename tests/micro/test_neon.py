"""The microkernels for 64-bit ARM, under an emulator where the processor is another one."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.ulp.strips import CSRC, FLAGS
from tests.micro.library import HERE

NATIVE = platform.machine() == "aarch64"
COMPILER = "gcc" if NATIVE else "aarch64-linux-gnu-gcc"
EMULATOR = [] if NATIVE else ["qemu-aarch64-static"]


@pytest.mark.in_turn(4)
@pytest.mark.skipif(
    not all(map(shutil.which, [COMPILER, *EMULATOR])), reason="needs a compiler and an emulator of ARM"
)
def test_neon(tmp_path: Path) -> None:
    program = tmp_path / "driver"
    flags = [f for f in FLAGS if f not in ("-shared", "-fPIC")]
    command = [COMPILER, *flags, "-O3", "-static", f"-I{CSRC}", "-DDLC_ISA=neon", "-DFUSED=1"]
    subprocess.run([*command, str(HERE / "driver.c"), "-o", str(program)], check=True)
    done = subprocess.run([*EMULATOR, str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
