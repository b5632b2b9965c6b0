"""Calls that take turns, A B A B, each in a process of its own.

In one process, what one of them leaves to malloc moves the times of another's large calls by up to a
quarter, and the more of them there are the more. So here each process makes its own calls, by a function
that it imports, and blocks on a pipe until its next turn. Only one of them works at a time, also while they
compile. Their imports come first, all together.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

import torch

from benchmarks.measure import Timing, alternate, turn

#: Makes what is timed: a call for each case, compiled and settled; and says what else its process has found
#: out. It is a function of a module, or a functools.partial of one, and what it finds out can be pickled.
Maker = Callable[[], tuple[list[Callable[[], Any]], Any]]


WARM = 0.01  # seconds of calls that are not counted: a process that wakes up finds its caches cold


class Failed(RuntimeError):
    """A process raised an error, or ended: the message begins with its name."""


class _Raised(str):
    """The traceback of an error."""


def _work(pipe: Connection, maker: Maker, threads: int, gradients: bool) -> None:
    """What a process does: answers until the pipe is closed."""
    torch.set_num_threads(threads)
    torch.set_grad_enabled(gradients)
    calls: list[Callable[[], Any]] = []
    answer: Any = None
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            pipe.send(answer)
            case, count = pipe.recv()
            try:
                if count:
                    answer = turn(calls[case], count, WARM)
                else:
                    calls, found = maker()
                    answer = len(calls), found
            except Exception:
                answer = _Raised(traceback.format_exc())


class _Process:
    """A process, seen from its parent."""

    def __init__(self, name: str, maker: Maker) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.name = name
        self._pipe, other = spawn.Pipe()
        given = other, maker, torch.get_num_threads(), torch.is_grad_enabled()
        self._process = spawn.Process(target=_work, args=given)
        self._process.start()
        other.close()  # so that the pipe ends with the process

    def answer(self) -> Any:
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise Failed(f"{self.name}: {self._end()}") from None
        if isinstance(answer, _Raised):
            raise Failed(f"{self.name}: {answer}")
        return answer

    def ask(self, case: int, count: int) -> Any:
        """The seconds of one of `count` calls of a case; of none: makes them."""
        with contextlib.suppress(OSError):  # its end is what it answers
            self._pipe.send((case, count))
        return self.answer()

    def make(self) -> tuple[int, Any]:
        """The number of cases, and what was found out."""
        return self.ask(0, 0)  # type: ignore[no-any-return]

    def _end(self) -> str:
        self._process.join()
        code = self._process.exitcode or 0
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def close(self) -> None:
        self._pipe.close()

    def join(self) -> None:
        self._process.join()


@contextlib.contextmanager
def _started(makers: Mapping[str, Maker]) -> Iterator[list[_Process]]:
    """The processes, whose imports are done."""
    processes: list[_Process] = []
    try:
        for name, maker in makers.items():
            processes.append(_Process(name, maker))
        for process in processes:
            process.answer()
        yield processes
    finally:
        for process in processes:
            process.close()
        for process in processes:
            process.join()


def interleaved(
    makers: Mapping[str, Maker], budget: float = 3.0, least: int = 7
) -> tuple[list[dict[str, Timing]], dict[str, Any]]:
    """For each case, seconds of calls that take turns as in measure.interleaved; and what else was found out.

    Each process has as many threads of torch as this one, and records gradients if this one does.
    """
    with _started(makers) as processes:
        made = {process.name: process.make() for process in processes}
        (cases,) = {count for count, _ in made.values()}
        timings = []
        for case in range(cases):
            turns = {process.name: functools.partial(process.ask, case) for process in processes}
            timings.append(alternate(turns, budget, least))
        return timings, {name: found for name, (_, found) in made.items()}
