"""Options from the environment, and what is said of those that cannot be had on this machine."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import dlc
from dlc.options import Options, parse, said
from tests.fresh import run


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in Options.__dataclass_fields__:
        monkeypatch.delenv(f"DLC_{field.upper()}", raising=False)


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in Options.__dataclass_fields__:
        monkeypatch.setenv(f"DLC_{field.upper()}", "")
    assert parse(None) == Options()


def test_an_error_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_TIER", "fast")
    with pytest.raises(ValueError, match=r"not 'fast' \(from the environment: DLC_TIER\)"):
        parse(None)
    assert parse({"tier": "tcc"}).tier == "tcc"  # the variable is not read then


def test_a_folder_that_others_may_write_to_is_warned_of(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.warns(UserWarning, match="keeps no kernels in .* writable by you alone"):
        assert parse({"cache": tmp_path}).cache == str(tmp_path)


def test_a_folder_in_the_way_of_which_a_file_lies_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="keeps no kernels in"):
        parse({"cache": tmp_path / "file" / "cache"})


def test_a_folder_that_can_be_used_is_not_warned_of(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse({"cache": tmp_path / "new"})


@pytest.mark.parametrize("options", [{"tier": "gcc"}, {"tune": True}], ids=str)
def test_a_settled_tier_without_a_compiler_is_warned_of(
    options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said.clear()
    with pytest.warns(UserWarning, match="finds no C compiler on the PATH"):
        parse(options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(options)  # it was said
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(None)


def kernels(options: dict[str, object]) -> int:
    torch._dynamo.reset()
    before = dlc.counters()["kernels"]
    torch.compile(lambda x: x.exp().cos().tanh(), backend="dlc", options=options)(torch.randn(8))
    return dlc.counters()["kernels"] - before


def test_options_win_over_the_variables_of_the_passes(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DLC_FUEL", "0")
    monkeypatch.setenv("DLC_DUMP", "fuse")
    assert kernels({"strict": True}) == 3 and "-- " in capfd.readouterr().err
    assert kernels({"fuel": -1, "dump": None}) == 1 and not capfd.readouterr().err


@pytest.mark.in_turn(3)
def test_no_compiler_in_particular_wins_over_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """cc=None takes the one on the PATH."""
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("DLC_CC", str(broken))
    dlc.wait()  # for what earlier tests have left to compile
    for options, made in (({}, 0), ({"cc": None}, 1)):
        torch._dynamo.reset()
        before = dlc.counters()["gcc_compiles"]
        asked = {"tier": "gcc", "cache": False} | options
        torch.compile(lambda x: x.exp() * 1.625, backend="dlc", options=asked)(torch.randn(8))
        assert dlc.counters()["gcc_compiles"] - before == made


@pytest.mark.parametrize(
    ("text", "mib"),
    [("2 GB", 2048), ("2GiB", 2048), ("64m", 64), (str(2**20), 1), ("plenty", 512), ("-3M", 512)],
)
def test_a_number_of_bytes(text: str, mib: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is none is the default."""
    monkeypatch.setenv("DLC_CACHE_SIZE", text)
    assert dlc.cache.describe().endswith(f"of {mib} MiB")


@pytest.mark.in_turn(3)
def test_a_number_of_bytes_that_is_none_is_logged() -> None:
    """Where a notebook sets it between two calls; a compile raises."""
    script = """if True:
        import os, torch
        f, x = torch.compile(lambda x: x + 1, backend='dlc'), torch.ones(2**20)
        f(x)
        os.environ["DLC_POOL"] = "plenty"
        f(x)
    """
    done = run(script, DLC_LOG="1")
    assert done.returncode == 0, done.stderr
    assert 'DLC_POOL is "plenty", which is no number of bytes' in done.stderr
