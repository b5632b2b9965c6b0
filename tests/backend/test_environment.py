"""The variables DLC_<NAME>: the table has all of them, and wrong ones are told of."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path

import pytest
import torch

from dlc.environment import PROCESS, WORKSHOP
from dlc.options import Options, environment_problems, parse, said
from tests.fresh import run_module

ROOT = Path(__file__).parents[2]
OPTIONS = {f"DLC_{field.name.upper()}" for field in dataclasses.fields(Options)}
READ = re.compile(
    r"(?:getenv|environment_bytes|is_yes)\(\"(DLC_\w+)\"|environ(?:\.get\(|\.pop\(|\[)[\"'](DLC_\w+)[\"']"
)


@pytest.fixture(autouse=True)
def nothing_said() -> None:
    said.clear()


def names_in(text: str) -> set[str]:
    return {name for groups in READ.findall(text) for name in groups if name}


def test_the_table_has_what_the_sources_read() -> None:
    sources = [*ROOT.glob("csrc/**/*.[ch]"), *ROOT.glob("dlc/*.py")]
    assert set().union(*(names_in(path.read_text()) for path in sources)) - OPTIONS == PROCESS.keys()


def test_the_workshop_has_what_the_tests_and_the_build_read() -> None:
    sources = [*(p for p in ROOT.glob("tests/**/*.py") if p != Path(__file__)), ROOT / "setup.py"]
    read = set().union(*(names_in(path.read_text()) for path in sources))
    assert read - OPTIONS - PROCESS.keys() == set(WORKSHOP)


def test_the_page_has_the_table() -> None:
    text = (ROOT / "docs" / "options.md").read_text()
    rows = set(re.findall(r"^\| `(DLC_\w+)` \|", text, re.MULTILINE))
    assert rows == PROCESS.keys()
    assert all(f"`{name}`" in text for name in WORKSHOP)


def test_a_name_that_nothing_reads_is_warned_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_TEIR", "gcc")
    with pytest.warns(UserWarning, match=r"DLC_TEIR=gcc is none of dlc's \(did you mean DLC_TIER\?\)"):
        assert parse(None) == parse({})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(None)


def test_the_first_compile_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CASHE", "0")
    with pytest.warns(UserWarning, match=r"DLC_CASHE=0 .*\(did you mean DLC_CACHE\?\)"):
        torch.compile(lambda x: x * 1.5, backend="dlc")(torch.ones(2))


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("DLC_CACHE_SIZE", "plenty", "a number of bytes"),
        ("DLC_POOL", "-3M", "a number of bytes"),
        ("DLC_POOL", "3X", "a number of bytes"),
        ("DLC_CC_TIMEOUT", "soon", "seconds"),
        ("DLC_CC_TIMEOUT", "0", "seconds"),
        ("DLC_COSTS", "avx", "sse2, avx2, avx512 or neon"),
        ("DLC_ISA", "avx10", "sse2, avx2 or avx512"),
        ("DLC_LOG", "loud", "1 or 0"),
        ("DLC_ANY_TORCH", "any", "1 or 0"),
        ("DLC_TIER", "clang", '"auto", "tcc" or "gcc"'),
        ("DLC_STRICT", "perhaps", "True or False"),
    ],
)
def test_a_value_that_is_none_is_an_error(
    name: str, value: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=what) as raised:
        parse(None)
    assert name in str(raised.value)
    assert len(environment_problems()) == 1 and name in environment_problems()[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DLC_POOL", "2 GiB"), ("DLC_POOL", "64m"), ("DLC_POOL", "0"), ("DLC_POOL", "1.5e3"),
        ("DLC_POOL", "7B"), ("DLC_CC_TIMEOUT", "0.5"), ("DLC_CC_TIMEOUT", ""), ("DLC_LOG", "off"),
        ("DLC_LOG", ""), ("DLC_TEIR", ""), ("DLC_FUZZ", "10,1"),
    ],
)  # fmt: skip
def test_a_value_that_is_one_is_not(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert not environment_problems()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(None)


@pytest.mark.in_turn(3)
def test_doctor_lists_all_of_them() -> None:
    done = run_module("dlc", "doctor", DLC_TEIR="gcc", DLC_TIER="clang", DLC_POOL="lots")
    line = next(line for line in done.stdout.splitlines() if line.split()[1] == "environment")
    assert done.returncode == 1 and line.startswith("wrong ")
    assert "did you mean DLC_TIER?" in line and "not 'clang'" in line and "not 'lots'" in line
