"""Many programs as plain C: those that models were captured to, those that were wrong once, random ones.

Each is compiled strictly, with sanitizers, and its check has to find the bits of dlc.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import dlc
from dlc import ir
from tests.export.compilers import NATIVE, build, passes
from tests.shards import Shard

ROOT = Path(__file__).resolve().parents[2]
SANITIZED = [*NATIVE, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
GRAPH = re.compile(r"^dlc 1 graph$", re.M)
RANDOM = 6  # programs of each kind in a run
REFUSED = re.compile("operators cannot become C")


def programs(*folders: str) -> list[Path]:
    """Those of the graph stage that call nothing."""
    paths = (path for folder in folders for path in sorted((ROOT / folder).glob("*.dlc")))
    return [path for path in paths if GRAPH.search(text := path.read_text()) and " = call " not in text]


def check(text: str, folder: Path) -> str:
    """What the check says; "" for a program that C cannot have."""
    try:
        ir.parse(text).export_c(folder)
    except dlc.CaptureError as error:
        assert REFUSED.search(str(error)), error
        return ""
    return passes(build(folder, *SANITIZED, "-DCHECK_THREADS=3", "-pthread"))


@pytest.mark.in_turn(16, "softmax", "adam", "lstm")
@pytest.mark.parametrize("path", programs("tests/replay/corpus"), ids=lambda path: path.stem)
def test_captured_programs(path: Path, tmp_path: Path) -> None:
    assert check(path.read_text(), tmp_path)


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("path", programs("tests/regress"), ids=lambda path: path.stem)
def test_programs_that_were_wrong_once(path: Path, tmp_path: Path) -> None:
    check(path.read_text(), tmp_path)


@pytest.mark.parametrize("kind", ["", "--flow", "--products", "--layouts"])
def test_random_programs(kind: str, tmp_path: Path, shard: Shard) -> None:
    """The fuzzer's; other ones with each shard."""
    command = [str(ROOT / "build/test-fuzz"), *([kind] if kind else []), "--tiers", "none"]
    command += ["--seed", str(1000 + RANDOM * shard.number), "--count", str(RANDOM), "--print", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    paths = programs(str(tmp_path))
    assert paths
    said = [check(path.read_text(), tmp_path / path.stem) for path in paths]
    assert any(said)
