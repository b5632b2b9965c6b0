"""The pipeline around a pass: a driver in C for what no text can say, and the dumps of dlc-opt."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ..dlc_opt import PROGRAM

ROOT = Path(__file__).resolve().parents[2]
TEXT = "dlc 1 graph\n\nfn f[N](x: f32[N]) -> (f32[N]) {\n  let y: f32[N] = exp x\n  ret y\n}\n"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_driver(tmp_path: Path) -> None:
    program = tmp_path / "test_pipeline"
    sources = [str(p) for folder in ("ir", "fusion") for p in sorted((ROOT / "csrc" / folder).glob("*.c"))]
    flags = ["-std=gnu11", "-O1", "-g", "-ffp-contract=off", "-fwrapv"]
    flags += ["-fsanitize=address,undefined"] if os.environ.get("DLC_ASAN") else []
    driver = str(Path(__file__).with_suffix(".c"))
    subprocess.run(["cc", *flags, driver, *sources, "-lm", "-o", str(program)], check=True)
    ran = subprocess.run([program], capture_output=True, text=True, env={"DLC_DUMP_DIR": str(tmp_path)})
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(("names", "headers"), [
    ("all", ["-- canonicalise (unchanged)", "-- dead (unchanged)", "-- fuse"]),
    ("fuse,dead", ["-- dead (unchanged)", "-- fuse"]),
    ("fus", []),
])  # fmt: skip
def test_dumps(names: str, headers: list[str]) -> None:
    ran = subprocess.run(
        [PROGRAM, "--pipeline", "--emit", "none", "-"],
        input=TEXT, capture_output=True, text=True, env={"DLC_DUMP": names},
    )  # fmt: skip
    assert [line for line in ran.stderr.splitlines() if line.startswith("--")] == headers
    assert ran.stderr.count("kernel {") == ("-- fuse" in headers)
