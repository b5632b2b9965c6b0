"""The command line on mistyped words and missing files: it names the nearest word and the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh import run_module

MISTYPED = {
    "doctr": "invalid choice: 'doctr' .*; did you mean doctor?",
    "cache trm": "invalid choice: 'trm' .*; did you mean trim?",
    "opt --pases dead": "there is no option or argument --pases; did you mean --passes?",
    "explain --show kernel x.py": "invalid choice: 'kernel' .*; did you mean kernels?",
}


@pytest.mark.parametrize("line", MISTYPED)
def test_a_mistyped_word(line: str) -> None:
    done = run_module("dlc", *line.split())
    before, _, after = MISTYPED[line].partition(" .*")
    assert done.returncode == 2 and before in done.stderr and after in done.stderr
    assert f"usage: python -m dlc {line.split()[0] if line.startswith('opt') else ''}" in done.stderr


@pytest.mark.parametrize(
    "line", ["run FILE", "reduce FILE", "bisect FILE", "opt FILE", "explain FILE", "cache import FILE"]
)
def test_a_missing_file(tmp_path: Path, line: str) -> None:
    file = str(tmp_path / "none.dlc")
    done = run_module("dlc", *line.replace("FILE", file).split())
    assert done.returncode != 0 and f"{file}: there is no such file\n" == done.stdout + done.stderr


@pytest.mark.parametrize("option", ["--html", "--perfetto"])
def test_a_missing_folder_is_said_before_the_script_runs(tmp_path: Path, option: str) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('it ran')\n")
    done = run_module("dlc", "explain", option, str(tmp_path / "none" / "page"), str(script))
    assert done.returncode == 2 and f"there is no folder {tmp_path / 'none'}" in done.stderr
    assert not done.stdout


def test_standard_input_is_named() -> None:
    done = run_module("dlc", "opt", where={"text": "fn f"})
    assert done.stderr.startswith("standard input:1:1: expected 'dlc 1 graph'")
