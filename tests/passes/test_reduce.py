"""A bug is one file, which every way to run it reads, and which is made small.

build/broken/site has dlc with bugs on purpose (broken.c). Two of them are reduced here, all twelve by
`python -m tests.passes.test_reduce`, which CONTRIBUTING.md names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import dlc
from tests.fresh import run_file, run_module

ROOT = Path(__file__).parents[2]
SITE = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "broken" / "site"
#: Each bug with the way that shows it, and how.
BUGS = {
    "store": ("tcc", "error"),
    "load": ("tcc", "wrong"),
    "sub": ("interpreter, fused", "wrong"),
    "mul": ("interpreter, fused", "wrong"),
    "fuse": ("interpreter, fused", "wrong"),
    "fault": ("interpreter, fused", "error"),
    "strip": ("tcc", "wrong"),
    "crash": ("tcc", "crash"),
    "trap": ("gcc", "crash"),
    "range": ("tcc", "wrong"),
    "memory": ("tcc", "wrong"),
    "stride": ("tcc", "wrong"),
}
MOST_LETS, MOST_SECONDS = 8, 30


def block(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Norms, a softmax, gates, sorts of layouts, and a state that is written to."""
    centred = x - x.mean(-1, keepdim=True)
    h = centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * w
    gate = torch.tanh(h * 0.8) + torch.sigmoid(h)
    scores = (h * gate).softmax(-1)
    mixed = scores.t().cumsum(0).t() + gate
    down = (mixed - mixed.amax(0, keepdim=True)).exp() * w
    total = down.sum(0) + torch.sqrt(down.abs().sum(0) + 1)
    old = s.clone()
    s.copy_(s.flip(0) * 0.5 + 1)
    return mixed * total, (down - total).relu(), torch.cat([h, gate]).t(), old * 2


def saved(path: Path, **options: object) -> Path:
    torch.manual_seed(0)
    x, w = torch.randn(24, 40), torch.randn(40)
    torch._dynamo.mark_dynamic(x, 1)
    torch._dynamo.mark_dynamic(w, 0)
    with torch.no_grad():
        dlc.save_repro(block, (x, w, torch.randn(24, 24)), path, **options)
    return path


def command(name: str, file: Path, *more: str, bug: str = "") -> subprocess.CompletedProcess[str]:
    env = {"PYTHONPATH": str(SITE if bug else ROOT), "BROKEN": bug, "TMPDIR": str(file.parent)}
    return run_module("dlc", name, str(file), *more, where={"folder": file.parent}, **env)


def reduced(bug: str, folder: Path) -> tuple[int, float]:
    """The lets that are left, and the seconds it took; the failure is the same one."""
    file, small = folder / "bug.dlc", folder / f"{bug}.dlc"
    begin = time.monotonic()
    done = command("reduce", file, "-o", str(small), bug=bug)
    seconds = time.monotonic() - begin
    assert done.returncode == 0, done.stdout + done.stderr
    way, kind = BUGS[bug]
    assert f"{way}: {kind}: " in done.stderr, done.stderr
    again = command("run", small, bug=bug)
    assert again.returncode == (2 if kind == "crash" else 1), again.stdout + again.stderr
    row = next(line for line in again.stdout.splitlines() if line.startswith(f"  {way:20}"))
    assert {"wrong": "WRONG", "error": "error:", "crash": "crash:"}[kind] in row, again.stdout
    return small.read_text().count("\n  let "), seconds


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("bug") / "bug.dlc").parent


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("bug", ["load", "crash"])
def test_a_bug_becomes_small(bug: str, folder: Path) -> None:
    assert SITE.exists(), "make -f csrc/build.mk broken builds it"
    lets, _ = reduced(bug, folder)
    assert lets <= MOST_LETS, (folder / f"{bug}.dlc").read_text()


@pytest.mark.in_turn(3)
def test_a_sound_program_agrees(folder: Path) -> None:
    done = command("run", folder / "bug.dlc")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all agree" in done.stdout and re.search(r"^  tcc  .* right", done.stdout, re.MULTILINE)


@pytest.mark.in_turn(3)
def test_a_fault_of_the_compiler_names_its_file(tmp_path: Path) -> None:
    """In a process of its own, whose dlc has the bug."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "torch.compile(lambda x: x.amax(0), backend='dlc', options={'strict': True})(torch.ones(3))\n"
    )
    env = {"PYTHONPATH": str(SITE), "BROKEN": "fault", "DLC_DUMP_DIR": str(tmp_path)}
    done = run_file(script, where={"folder": tmp_path}, **env)
    found = re.search(r"to repeat it: python -m dlc run (\S+\.dlc)", done.stderr)
    assert done.returncode == 1 and found is not None, done.stderr
    assert "script.py" not in Path(found.group(1)).read_text()
    assert "amax" in Path(found.group(1)).read_text()


def main() -> int:
    """All bugs, with what became of each."""
    import tempfile

    status = 0
    with tempfile.TemporaryDirectory() as name:
        file = saved(Path(name) / "bug.dlc")
        print(f"{file.read_text().count(chr(10) + '  let ')} lets")
        for bug in sys.argv[1:] or BUGS:
            try:
                lets, seconds = reduced(bug, file.parent)
            except AssertionError as error:
                lets, seconds = 999, 0.0
                print(str(error)[:3000])
            good = lets <= MOST_LETS and seconds < MOST_SECONDS
            status |= not good
            print(f"{bug:8} {lets:3} lets {seconds:5.1f} s {'' if good else 'TOO MUCH'}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
