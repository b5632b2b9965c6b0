"""The pipeline around a pass: a driver in C for what no text can say, and the dumps of dlc-opt."""

import subprocess
from collections.abc import Callable

import pytest

from ..dlc_opt import PROGRAM

TEXT = "dlc 1 graph\n\nfn f[N](x: f32[N]) -> (f32[N]) {\n  let y: f32[N] = exp x\n  ret y\n}\n"


def test_driver(drive: Callable[[str], None]) -> None:
    drive("test_pipeline")


@pytest.mark.parametrize(("names", "headers"), [
    ("all", [f"-- {name}" for name in (
        "unmerge (unchanged)", "channels (unchanged)", "count (unchanged)", "canonicalise (unchanged)",
        "linearise (unchanged)", "dead (unchanged)", "inside (unchanged)", "fuse",
        "share (unchanged)", "panels (unchanged)", "layouts (unchanged)", "pad_rows (unchanged)",
        "in_place (unchanged)", "enclose (unchanged)",
    )]),
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
