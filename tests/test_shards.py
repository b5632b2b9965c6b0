"""The shards of the sweeps are together everything, and have nothing twice."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import shards
from tests.ops.check import Way
from tests.ops.sweep import everything, jobs
from tests.ops.worker import numbers_of
from tests.shards import CELLS, Shard, digest


def total(cell: Any) -> int:
    """How many samples the cell is said to have."""
    return (0, 1, 2, 8, 40)[digest("total", *cell) % 5]


@pytest.fixture(scope="module")
def some() -> list[Any]:
    """Cells of torch's databases, all kinds of ways among them."""
    return list(everything()[::97])


@pytest.mark.parametrize("count", [1, 6, CELLS, 7, 8 * CELLS])
def test_shards_are_everything_once(count: int, some: list[Any]) -> None:
    """As the sweep does it: jobs of the cells that a shard visits, in the worker numbers of samples."""
    found = dict[tuple[Any, int], int]()
    for number in range(count):
        for job in jobs(some, "dlc", Shard(number, count)):
            cell = job["name"], Way(**job["way"])
            for i in numbers_of(job | {"skip": []}, total(cell)):
                found[cell, i] = found.get((cell, i), 0) + 1
    assert set(found) == {(cell, i) for cell in some for i in range(total(cell))}
    assert set(found.values()) == {1}


def test_landings_of_one_round_visit_every_cell_once() -> None:
    visits = [
        [cell for cell in everything() if Shard(number).visits(*cell)] for number in range(500, 500 + CELLS)
    ]
    assert sum(map(len, visits)) == len(everything()) == len(set(everything()))
    assert set().union(*visits) == set(everything())
    mean = len(everything()) / CELLS  # a hash puts cells as dice do: about its root is one deviation
    assert all(abs(len(each) - mean) < 4.5 * mean**0.5 for each in visits)


@pytest.mark.parametrize(("total", "window"), [(0, 1), (1, 4), (3, 4), (9, 1), (10, 4)])
def test_rounds_run_all_samples(total: int, window: int) -> None:
    rounds = -(-total // window)
    found = [Shard(7 + CELLS * r).some(total, window, "add", "static") for r in range(rounds)]
    assert all(len(each) == min(window, total) for each in found)
    assert set().union(*found) == set(range(total))
    if total > window:
        assert found[0] != found[1]


def test_places_stay() -> None:
    """A hash of names: not of Python's own seed, nor of what else is there."""
    assert digest("add", "static", 3) == 10643551697357014389
    assert [k for k in range(CELLS) if Shard(k).visits("add", "static")] == [156]
    many = Shard(156, 3 * CELLS).samples(100, "add", "static")
    assert many and [i for i in many if i < 50] == Shard(156, 3 * CELLS).samples(50, "add", "static")


def test_numbers() -> None:
    assert Shard.parse("7") == Shard(7, CELLS)
    assert Shard.parse("7", 160) == Shard(7, 160)
    assert Shard.parse(str(Shard(7, 30))) == Shard(7, 30)
    assert Shard.parse("commit/9") == Shard(shards.of_commit(), 9)
    for wrong in ("-1", "1/0", "x", "1/x"):
        with pytest.raises(ValueError):
            Shard.parse(wrong)


def test_the_commit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One commit more is the next shard; without commits the day decides."""

    def now() -> int:
        shards.of_commit.cache_clear()
        return shards.of_commit()

    monkeypatch.setattr(shards, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert now() > 700_000
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    for k in (1, 2):
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
        assert now() == k
    monkeypatch.setenv("PATH", "")
    assert now() > 700_000
    monkeypatch.undo()
    shards.of_commit.cache_clear()


def test_a_failure_says_its_shard(tmp_path: Path) -> None:
    """Where xdist runs it in another process, too."""
    inner = tmp_path / "test_inner.py"
    inner.write_text("def test_inner(shard): assert not shard\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "1",
        "-p",
        "tests.conftest",
        "--rootdir",
        tmp_path,
        inner,
    ]
    done = subprocess.run([*command, "--shard=47"], cwd=shards.ROOT, capture_output=True, text=True)
    assert "shard of the sweeps and turn of the tests: --shard=47/180" in done.stdout
    assert 'make test ARGS="--shard=47/180 test_inner.py::test_inner"' in done.stdout


TURNS = """
import pytest

@pytest.mark.in_turn(3)
@pytest.mark.parametrize("k", range(7))
def test_inner(k): pass

@pytest.mark.in_turn(3, "2", "1-5", "b")
@pytest.mark.parametrize("k", range(7))
@pytest.mark.parametrize("x", [1, "b"])
def test_always(k, x): pass

def test_other(): pass
"""
COLLECT = """
import sys, pytest
for chosen in ([], ["-k", "inner or always or other"], ["--whole"]):
    for shard in (50, 51, 52):
        options = ["-p", "tests.conftest", "--collect-only", "-q", f"--shard={shard}", *chosen]
        pytest.main([*options, "--rootdir", *sys.argv[1:], *sys.argv[1:]])
    print("end")
"""


def test_three_landings_have_all_turns(tmp_path: Path) -> None:
    """Each test in one of them, those of the names in each; all in each where they are asked for."""
    (tmp_path / "test_turns.py").write_text(TURNS)
    command = [sys.executable, "-c", COLLECT, tmp_path]
    done = subprocess.run(command, cwd=shards.ROOT, capture_output=True, text=True)
    turns = [f"test_inner[{k}]" for k in range(7)] + [f"test_always[1-{k}]" for k in (0, 1, 3, 4, 6)]
    always = [f"test_always[{x}]" for x in ("1-2", "1-5", *(f"b-{k}" for k in range(7)))] + ["test_other"]
    by_choice = done.stdout.split("end\n")
    for text, times in zip(by_choice, (1, 3, 3), strict=False):
        found = [line.partition("::")[2] for line in text.splitlines() if "::" in line]
        assert sorted(found) == sorted(turns * times + always * 3), done.stdout + done.stderr
    assert len(by_choice) == 4
