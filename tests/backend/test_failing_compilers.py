"""A C compiler that is there and fails: who named it or waits for it is told once, libtcc's kernels run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dlc
from tests.fresh import run as run_script
from tests.fresh import run_module

Made = Callable[[str], str]
GARBAGE = "for a in $@; do test $b && echo garbage > $a; b=; test $a = -o && b=1; done; exit 0"


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A program in place of a C compiler, of a line of shell."""
    monkeypatch.delenv("DLC_CC", raising=False)

    def program(body: str) -> str:
        path = tmp_path / "cc"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    return program


def run(options: dict[str, Any], scale: float) -> None:
    x = torch.randn(8)
    got = torch.compile(lambda x: x.exp() * scale, backend="dlc", options={"cache": False} | options)(x)
    torch.testing.assert_close(got, x.exp() * scale)


def warned(options: dict[str, Any], scale: float = 1.25) -> list[str]:
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(options, scale)
    return [str(w.message) for w in seen if "C compiler" in str(w.message)]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("echo first >&2; echo 'unit.c:1: error: no such thing'; echo then; exit 1", "no such thing. K"),
        ("echo; echo it cannot be; echo then; exit 1", "it cannot be. K"),
        ("exit 3", "ended with status 3. K"),
        ("kill -9 $$", "killed by signal 9. K"),
        ("exit 0", "it wrote no shared object. K"),
        (GARBAGE, "no shared object. K"),
    ],
)
def test_who_waits_for_it_is_told_once(body: str, line: str, made: Made) -> None:
    cc = made(body)
    said_first = warned({"tier": "gcc", "cc": cc})
    assert len(said_first) == 1 and f"{cc!r} failed: " in said_first[0] and line in said_first[0]
    assert "libtcc" in said_first[0] and "python -m dlc doctor" in said_first[0]
    assert not warned({"tier": "gcc", "cc": cc}, 1.375)
    assert said_first[0].removeprefix("dlc: ") in str(dlc.explain(lambda x: x.exp() * 2.25, torch.randn(8)))


def test_dlc_jit_tells_too(made: Made) -> None:
    with pytest.warns(UserWarning, match="failed: .*ended with status 9"):
        dlc.jit(lambda x: x.exp() * 1.75, tier="gcc", cache=False, cc=made("exit 9"))(torch.randn(3))


@pytest.mark.in_turn(3)
def test_one_that_hangs_is_waited_for_once(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cc = made(f"echo x >> {tmp_path}/runs; sleep 100")
    script = f"""if True:
        import torch
        for scale in (1.5, 2.5, 3.5):
            torch._dynamo.reset()
            options = {{"tier": "gcc", "cache": False, "cc": {cc!r}}}
            torch.compile(lambda x: x.exp() * scale, backend="dlc", options=options)(torch.randn(8))
    """
    done = run_script(script, DLC_CC_TIMEOUT="1")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("killed, it had 1 seconds") == 1
    assert (tmp_path / "runs").read_text() == "x\n"


def test_in_the_background_who_named_it_is_told_when_it_is_known(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_CC", made("exit 4"))
    torch._dynamo.reset()
    with pytest.warns(UserWarning, match="failed: .*ended with status 4"):
        f = torch.compile(lambda x: x.exp() * 4.5, backend="dlc", options={"cache": False})
        f(torch.randn(8))
        dlc.wait()


def test_in_the_background_nobody_is_told_of_one_that_was_found(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But it is counted, and there for who asks."""
    monkeypatch.setenv("PATH", str(Path(made("exit 5")).parent))
    torch._dynamo.reset()
    before = dlc.counters()["gcc_failures"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = torch.compile(lambda x: x.exp() * 5.5, backend="dlc", options={"cache": False})
        f(torch.randn(8))
        dlc.wait()
    assert dlc.counters()["gcc_failures"] == before + 1
    assert "ended with status 5" in str(dlc.explain(lambda x: x.exp() * 6.5, torch.randn(8)))


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("exit 0", "it wrote nothing"),
        (GARBAGE, "cannot be loaded"),
        ("echo first; echo an error; exit 1", "an error"),
    ],
)
def test_doctor_tries_it(body: str, line: str, made: Made) -> None:
    done = run_module("dlc", "doctor", DLC_CC=made(body))
    found = next(text for text in done.stdout.splitlines() if text.split()[1] == "compiler")
    assert found.startswith("missing") and line in found
