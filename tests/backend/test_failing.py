"""Failing well: unknown options, graphs and operators that are not compiled, broken compilers."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import dlc
from dlc.options import parse
from tests.fresh import run


def test_an_unknown_option_lists_the_valid_ones() -> None:
    """torch wraps what a backend raises; dlc.jit raises it itself, before any call."""
    message = r"unknown dlc option 'teir' \(did you mean 'tier'\?\).*strict"
    with pytest.raises(BackendCompilerFailed, match=message) as raised:
        torch.compile(lambda x: x + 1, backend="dlc", options={"teir": "tcc"})(torch.ones(2))
    assert isinstance(raised.value, RuntimeError) and type(raised.value.inner_exception) is ValueError
    with pytest.raises(ValueError, match=message):
        dlc.jit(lambda x: x + 1, teir="tcc")


def test_an_unknown_mode_lists_the_valid_ones() -> None:
    with pytest.raises(
        BackendCompilerFailed, match=r"unknown mode 'fast'; the modes are default, reduce-overhead"
    ):
        torch.compile(lambda x: x + 1, backend="dlc", mode="fast")(torch.ones(2))


@pytest.mark.parametrize(
    "options",
    [
        {"tier": "fast"},
        {"strict": "perhaps"},
        {"freeze": "perhaps"},
        {"fuel": "much"},
        {"cache": 3},
        {"dump": "fuze"},
    ],
)
def test_a_wrong_value_is_an_error(options: dict[str, object]) -> None:
    with pytest.raises(BackendCompilerFailed, match="dlc option") as raised:
        torch.compile(lambda x: x + 1, backend="dlc", options=options)(torch.ones(2))
    assert type(raised.value.inner_exception) is ValueError


def test_a_compiler_that_is_missing_is_said() -> None:
    with pytest.warns(UserWarning, match="no C compiler '/missing/gcc'"):
        got = torch.compile(lambda x: x + 1, backend="dlc", options={"cc": "/missing/gcc"})(torch.ones(2))
    assert got.tolist() == [2, 2]


def test_a_folder_is_a_path_or_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse({"cache": tmp_path / "kept"}).cache == str(tmp_path / "kept")
    assert parse({"cache": "~/kept"}).cache == str(tmp_path / "kept")
    assert parse({"cache": False}).cache is False


def test_an_operator_that_is_not_compiled_is_called() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x.sin() + 3 * torch.eye(4)) + 1

    x = torch.randn(4, 4)
    report = dlc.explain(fn, x)
    assert "linalg_inv" in str(report)
    torch.testing.assert_close(torch.compile(fn, backend="dlc")(x), fn(x))


def double(z: torch.Tensor) -> torch.Tensor:
    """dlc takes no graph that writes through a conjugate."""
    return z.mul_(2)


def test_a_graph_that_is_refused_runs_eagerly_with_one_warning() -> None:
    torch._dynamo.reset()
    z = torch.randn(4, dtype=torch.complex64)
    want = 2 * z.conj()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        got = torch.compile(double, backend="dlc")(z.conj())
    torch.testing.assert_close(got, want)
    assert [w.category for w in seen if "dlc runs a graph eagerly" in str(w.message)] == [
        dlc.EagerGraphWarning
    ]


def test_strict_raises_the_reason() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(double, backend="dlc", options={"strict": True})
    with pytest.raises(BackendCompilerFailed, match="it writes to a tensor that is not an input") as raised:
        compiled(torch.randn(4, dtype=torch.complex64).conj())
    assert type(raised.value.inner_exception) is dlc.CaptureError


SCRIPT = """
    import torch, dlc
    def fn(x):
        return (x.tanh() * 2).softmax(-1)
    x = torch.randn(8, 100)
    f = torch.compile(fn, backend="dlc", options={"strict": True})
    torch.testing.assert_close(f(x), fn(x))
    dlc.wait()
    torch.testing.assert_close(f(x), fn(x))
    counters = dlc.counters()
    print(counters["tcc_compiles"], counters["gcc_compiles"], counters["swaps"])
"""


@pytest.mark.in_turn(3)
def test_without_a_compiler_on_the_path(tmp_path: Path) -> None:
    done = run(SCRIPT, PATH=str(tmp_path), DLC_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "0", "0"]


@pytest.mark.in_turn(6, "sleep 1000")
@pytest.mark.parametrize("body", ["sleep 1000", "echo garbage; echo more >&2", "kill -9 $$", "exit 3"])
def test_a_broken_compiler_leaves_the_libtcc_tier(tmp_path: Path, body: str) -> None:
    cc = tmp_path / "cc"
    cc.write_text(f"#!/bin/sh\n{body}\n")
    cc.chmod(0o755)
    done = run(SCRIPT, DLC_CC=str(cc), DLC_CC_TIMEOUT="1", DLC_CACHE_DIR=str(tmp_path / "cache"), DLC_LOG="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "0", "0"]
    assert "dlc:" in done.stderr


def test_without_a_cache_folder(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = run(SCRIPT, DLC_CACHE_DIR=str(blocked / "cache"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "1"


def test_threads_call_one_model() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2 + 1, -1) + x.mean(-1, keepdim=True)

    torch._dynamo.reset()
    f = torch.compile(fn, backend="dlc", dynamic=True)
    f(torch.randn(4, 4))
    wrong: list[str] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for n in range(50):
            x = torch.randn(2 + n % 7, 50 + seed, generator=generator)
            try:
                torch.testing.assert_close(f(x), fn(x))
            except Exception as error:  # any failure of a thread is the finding
                wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.in_turn(3)
def test_nothing_is_left_running_or_lying_about(tmp_path: Path) -> None:
    script = SCRIPT.replace("dlc.wait()", "")
    done = run(script, DLC_CACHE_DIR=str(tmp_path / "cache"), TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    left = [p.name for p in tmp_path.iterdir() if p.name != "cache" and p.name.startswith("dlc")]
    assert not left
