"""Processes of benchmarks: their turns, and their ends."""

import functools
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks import processes


def slow(*seconds: float) -> tuple[list[Callable[[], Any]], tuple[int, int, bool]]:
    found = os.getpid(), torch.get_num_threads(), torch.is_grad_enabled()
    return [functools.partial(time.sleep, s) for s in seconds], found


def raises() -> tuple[list[Callable[[], Any]], None]:
    raise EOFError("not made")


def made(call: Callable[[], Any]) -> tuple[list[Callable[[], Any]], None]:
    return [call], None


@pytest.mark.in_turn(8)
def test_each_has_a_process() -> None:
    """With this one's threads and mode of gradients; the parent has seconds of each case."""
    makers = {"first": functools.partial(slow, 0.01, 0.1), "second": functools.partial(slow, 0.02, 0.2)}
    with torch.no_grad():
        timings, found = processes.interleaved(makers, 0.0, least=2)
    for timing, seconds in zip(timings, (0.01, 0.1), strict=True):
        assert timing["first"].median >= seconds
        assert timing["second"].median >= 2 * seconds
    assert len({os.getpid(), *(number for number, *_ in found.values())}) == 3
    assert all(rest == [torch.get_num_threads(), False] for _, *rest in found.values())


ENDS: dict[str, tuple[processes.Maker, str]] = {
    "raises when it is made": (raises, "Traceback.*in raises.*EOFError: not made"),
    "raises when it is called": (
        functools.partial(made, functools.partial(int, "x")),
        "Traceback.*ValueError: invalid literal",
    ),
    "is killed": (
        functools.partial(made, functools.partial(signal.raise_signal, signal.SIGKILL)),
        "killed by SIGKILL",
    ),
    "ends": (functools.partial(made, functools.partial(os._exit, 3)), "ended with exit code 3"),
}


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("end", ENDS)
def test_an_end_is_said_by_name(end: str) -> None:
    maker, message = ENDS[end]
    with pytest.raises(processes.Failed, match=f"(?s)^frozen: {message}"):
        processes.interleaved({"frozen": maker}, 0.0)
