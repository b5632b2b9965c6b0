"""python -m dlc, the options and their page, dlc.explain."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch

import dlc
from dlc.options import Options, parse
from tests.fresh import run_module

ROOT = Path(__file__).parents[2]
PROGRAM = """dlc 1 graph

fn twice[N in 0..inf](x: f32[N]) -> (f32[N]) {
  let a: f32[N] = add x, x
  let b: f32[N] = add x, x
  let y: f32[N] = mul a, b
  ret y
}
"""
SCRIPT = """
import sys, torch
f = torch.compile(lambda x: torch.linalg.inv(x.sin()) + len(sys.argv), backend="dlc")
f(torch.eye(3))
"""


def command(*arguments: str, text: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return run_module("dlc", *arguments, where={"text": text}, **environment)


@pytest.mark.in_turn(5)
@pytest.mark.parametrize("name", ["opt", "bisect", "cache", "explain", "doctor"])
def test_every_command_has_help(name: str) -> None:
    assert name in command("--help").stdout
    done = command(name, "--help")
    assert done.returncode == 0 and name in done.stdout


def test_version() -> None:
    assert command("--version").stdout == f"dlc {dlc.__version__}\n"


def test_a_package_without_its_extension_says_what_to_do(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "dlc", tmp_path / "dlc", ignore=shutil.ignore_patterns("_C*"))
    # -S: an editable installation finds its extension for any package of this name
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import dlc"], capture_output=True, text=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert (
        last.startswith(f"ImportError: the C part of dlc is not in {tmp_path / 'dlc'}")
        and "make build" in last
    )
    assert "ModuleNotFoundError" not in done.stderr


def test_names_that_take_torch_are_there() -> None:
    assert issubclass(dlc.ArtifactError, ValueError) and issubclass(dlc.EagerGraphWarning, UserWarning)


@pytest.mark.in_turn(3)
def test_opt() -> None:
    same = command("opt", "-", text=PROGRAM)
    assert same.returncode == 0 and dlc.ir.parse(same.stdout) == dlc.ir.parse(PROGRAM)
    shorter = command("opt", "--passes", "canonicalise,dead", "-", text=PROGRAM)
    assert shorter.stdout.count("let") < PROGRAM.count("let")
    wrong = command("opt", "-", text=PROGRAM.replace("mul", "mull"))
    assert wrong.returncode == 1 and "mull" in wrong.stderr and "^" in wrong.stderr


@pytest.mark.parametrize("name", ["opt", "bisect"])
def test_a_program_is_read_as_utf_8_in_any_locale(tmp_path: Path, name: str) -> None:
    file = tmp_path / "program.dlc"
    file.write_text(PROGRAM.replace("mul a, b", "mul a, ß"), encoding="utf-8")
    done = command(name, str(file), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert f"{file}:6:26: this character stands nowhere in the language" in done.stderr


@pytest.mark.parametrize("text", [b"\xff\xfe", PROGRAM.replace("b: f32", "b: i32").encode()])
def test_opt_names_the_file_of_what_is_no_program(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "program.dlc"
    file.write_bytes(text)
    done = command("opt", str(file))
    assert done.returncode == 1 and done.stderr.startswith(f"{file}:") and "Traceback" not in done.stderr


def test_opt_lists_the_passes() -> None:
    names = [line.split()[0] for line in command("opt", "--list").stdout.splitlines()]
    assert {"canonicalise", "fuse", "dead"} <= set(names)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("name", ["opt", "bisect", "explain"])
def test_a_file_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    missing = str(tmp_path / "missing.py")
    done = command(name, missing)
    assert done.returncode != 0 and missing in done.stderr and "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "dlc", "opt", "--list"]
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 1 and not done.stderr


@pytest.mark.in_turn(5)
@pytest.mark.parametrize("action", ["list", "check", "clear", "trim 1", "export kernels.zip"])
def test_a_cache_that_is_not_there_is_not_made(tmp_path: Path, action: str) -> None:
    folder = tmp_path / "mistyped"
    done = command("cache", "--folder", str(folder), *action.split())
    assert done.returncode == 1 and f"{folder} is no folder" in done.stdout
    assert not folder.exists()


def test_a_cache_is_not_trimmed_below_nothing(tmp_path: Path) -> None:
    done = command("cache", "--folder", str(tmp_path / "cache"), "trim", "-1")
    assert done.returncode == 2 and "-1" in done.stderr


def test_a_cache_is_named_by_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the user: as ~ in the shell, which does not write it out everywhere; a Path is a folder as well."""
    (tmp_path / "kept").mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert dlc.cache.describe("~/kept").startswith("0 kernels")
    assert dlc.cache.describe(tmp_path / "kept").startswith("0 kernels")
    assert dlc.cache.export(tmp_path / "file", folder="~/kept") == 0
    assert dlc.cache.import_(tmp_path / "file", folder=tmp_path / "kept")["failed"] == 0
    listed = command("cache", "--folder", "~/kept")
    assert listed.returncode == 0 and f"{tmp_path}/kept: 0 kernels" in listed.stdout
    assert not (tmp_path / "~").exists()


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "kernels.dlc"
    done = command("cache", "export", str(missing))
    assert done.returncode == 1 and str(missing) in done.stdout and "Traceback" not in done.stderr


def test_a_folder_that_others_may_write_to_is_no_cache(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    done = command("cache", "--folder", str(tmp_path))
    assert done.returncode == 1 and "writable by you alone" in done.stdout


def test_names_are_completed() -> None:
    assert {"cache", "explain", "ir", "jit"} <= set(dir(dlc))


def test_explain_takes_a_function() -> None:
    with pytest.raises(TypeError, match=r"dlc\.explain takes a function or a module"):
        dlc.explain(3)


@pytest.mark.in_turn(3)
def test_cache(tmp_path: Path) -> None:
    folder = str(tmp_path / "cache")
    torch._dynamo.reset()
    options = {"tier": "gcc", "cache": folder}
    torch.compile(lambda x: (x * 3).tanh(), backend="dlc", options=options)(torch.randn(5))
    listed = command("cache", "--folder", folder)
    assert listed.returncode == 0 and "1 kernels" in listed.stdout
    unit = next(path for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_size > 999)
    unit.write_bytes(unit.read_bytes()[:-9] + b"\0" * 9)
    checked = command("cache", "--folder", folder, "check")
    assert checked.returncode == 1 and "damaged" in checked.stdout
    assert "1 kernels removed" in command("cache", "--folder", folder, "clear").stdout
    assert "0 kernels removed" in command("cache", "--folder", folder, "trim", "1").stdout


@pytest.mark.in_turn(3)
def test_explain_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = command("explain", "--show", "kernels", str(script), "argument")
    assert done.returncode == 0, done.stderr
    assert "direct graph of <lambda> (script.py:3): 2 kernels" in done.stdout and "linalg_inv" in done.stdout
    assert "script.py:3" in done.stdout and "dlc 1 kernels" in done.stdout


def test_explain_may_be_called_again() -> None:
    for _ in range(2):
        report = dlc.explain(lambda x: (x + 1).softmax(-1), torch.randn(4, 4))
        assert re.search(r"direct graph of .*: 1 kernel, 0 calls; compiled in [\d.]+ ms", str(report))
        assert "<details><summary>after fusion" in report._repr_html_()
        assert all(report.graphs[0].texts.values())


def test_explain_names_what_runs_eagerly() -> None:
    with pytest.warns(UserWarning, match="dlc runs a graph eagerly"):
        report = dlc.explain(lambda z: z.mul_(2), torch.randn(4, dtype=torch.complex64).conj())
    assert "runs eagerly" in str(report) and "conj" in str(report)


@pytest.mark.in_turn(3)
def test_doctor() -> None:
    done = command("doctor", DLC_CC="cc -O1", DLC_LOG="0")
    words = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()}
    assert {"processor", "libtcc", "compiler", "torch", "cache"} <= words.keys()
    assert words["torch"] == "ok" and torch.__version__ in done.stdout
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    assert f"{dlc.__version__} in {ROOT / 'dlc'}; Python {platform.python_version()}" in lines["dlc"]
    assert f"NumPy {numpy.__version__}" in lines["dlc"] and "glibc" in lines["dlc"]
    assert words["compiler"] == "ok" and "/cc -O1: " in lines["compiler"]
    assert "DLC_CC=cc -O1" in lines["environment"] and "DLC_LOG=0" in lines["environment"]


@pytest.mark.in_turn(3)
def test_doctor_says_what_is_slow_here() -> None:
    done = command("doctor", DLC_CACHE="0", DLC_TIER="tcc", OMP_NUM_THREADS="1")
    lines = {line[9:21].strip(): line for line in done.stdout.splitlines()}
    assert {"processor", "threads", "compilers", "cache", "pools"} <= lines.keys()
    assert "MiB of results" in lines["pools"] and "OMP_NUM_THREADS=1" in lines["threads"]
    slow = lines["slow here"]
    assert slow.startswith("advice") and "DLC_CACHE=0: each process compiles again" in slow
    assert "DLC_TIER=tcc" in slow
    assert ("1 thread on" in slow) == (len(os.sched_getaffinity(0)) > 1)
    assert done.returncode == 0


@pytest.mark.in_turn(3)
def test_doctor_tries_the_compiler(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(
        "#!/bin/sh\ncase $1 in --version) echo cc 1.0;; *) echo no linker >&2; exit 1;; esac\n"
    )
    compiler.chmod(0o755)
    done = command("doctor", DLC_CC=str(compiler))
    line = next(line for line in done.stdout.splitlines() if line.split()[1] == "compiler")
    assert line.startswith("missing") and "makes no shared objects" in line and line.endswith("no linker")


def test_the_page_of_options_has_every_option_and_default() -> None:
    text = (ROOT / "docs" / "options.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*?\| `([^`|]*)` \| [^|]*\|$", text, re.MULTILINE)
    have = {name: default.strip('"') for name, default in rows if not name.startswith("DLC_")}
    assert have == {field.name: str(field.default) for field in dataclasses.fields(Options)}


@pytest.mark.parametrize("budget", [1.5, -0.1, "half", None, True, "nan"])
def test_a_memory_budget_that_is_none(budget: object) -> None:
    with pytest.raises(ValueError, match="'memory_budget' is a number from 0 to 1"):
        parse({"memory_budget": budget})


def test_a_memory_budget_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_MEMORY_BUDGET", "0.25")
    assert parse(None).memory_budget == 0.25
    assert parse({"memory_budget": 0}).memory_budget == 0


def test_an_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_TIER", "tcc")
    monkeypatch.setenv("DLC_STRICT", "1")
    monkeypatch.setenv("DLC_CACHE", "/some/folder")
    monkeypatch.setenv("DLC_FUEL", "7")
    options = parse({"tier": "gcc"})
    assert (options.tier, options.strict, options.cache_folder, options.fuel) == (
        "gcc",
        True,
        "/some/folder",
        7,
    )
    monkeypatch.setenv("DLC_CACHE", "0")
    assert parse(None).cache_folder == ""
    monkeypatch.setenv("DLC_STRICT", "perhaps")
    with pytest.raises(ValueError, match="'strict' is True or False"):
        parse(None)


def test_without_a_command_all_are_listed() -> None:
    done = command()
    assert done.returncode == 2 and "doctor" in done.stderr and "explain" in done.stderr


TEXTS = {
    "bytes": (bytes(range(256)), "codec can't decode"),
    "nothing": (b"", "expected 'dlc 1 graph', the first line of a program, found the end"),
    "a zero": (b"dlc 1 graph\n\0", "embedded null character"),
    "depth": (PROGRAM.replace("f32", "f32[" + "(" * 100_000, 1).encode(), "nested more than 100 deep"),
    "length": (b"#" * (65 << 20), "it has more than 64 MiB"),
}


@pytest.mark.in_turn(5)
@pytest.mark.parametrize("name", ["opt", "bisect"])
@pytest.mark.parametrize("text", TEXTS)
def test_what_is_no_program_is_a_line(tmp_path: Path, name: str, text: str) -> None:
    """And the place in the text, where it has one."""
    file = tmp_path / "program.dlc"
    file.write_bytes(TEXTS[text][0])
    done = command(name, str(file))
    assert done.returncode and "Traceback" not in done.stderr and not done.stdout
    assert TEXTS[text][1] in done.stderr.splitlines()[0] and done.stderr.startswith(str(file))


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(
    ("passes", "said"),
    [("nothing", "there is no pass 'nothing'"), ("\udcff", "surrogates"), ("dead,,", "")],
)
def test_passes_that_there_are_not(tmp_path: Path, passes: str, said: str) -> None:
    file = tmp_path / "program.dlc"
    file.write_text(PROGRAM)
    done = command("opt", "--passes", passes, str(file))
    assert done.returncode == 1 and said in done.stderr and len(done.stderr.splitlines()) == 1


def test_opt_of_a_folder_and_of_what_may_not_be_read(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/proc/self/mem")):
        done = command("opt", str(path))
        assert done.returncode == 1 and str(path) in done.stderr and len(done.stderr.splitlines()) == 1
