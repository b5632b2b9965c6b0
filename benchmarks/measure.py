"""Time, measured so that it can be compared.

A machine's speed drifts by more than the differences one looks for. So the things compared take turns,
A B A B, and what is reported is the median and the quartiles. A turn begins with a pause, in which the
other's threads stop spinning, and with a call that is not counted. Here all are in one process;
`processes.py` gives each its own.
"""

import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles
from typing import Any

from rich.table import Table
from tqdm import tqdm

PAUSE = 0.004  # longer than OpenMP's threads stay busy waiting after a loop
TURN = 0.03  # seconds a turn should last at least


@dataclass(frozen=True)
class Timing:
    """Seconds a call: quartiles over turns."""

    low: float
    median: float
    high: float
    turns: int

    def __str__(self) -> str:
        return f"{seconds(self.median)} \u00b1{50 * (self.high - self.low) / self.median:.0f}%"

    def data(self) -> dict[str, float]:
        return asdict(self)


def seconds(value: float) -> str:
    """A duration with three digits and the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def columns(title: str, names: str) -> Table:
    """A table without rows: the first column names a case, the others have figures."""
    made = Table(title=title)
    for k, name in enumerate(names.split(", ")):
        made.add_column(name, justify="right" if k else "left")
    return made


Clock = Callable[[], float]


def turn(call: Callable[[], Any], count: int, warm: float = 0.0, clock: Clock = time.perf_counter) -> float:
    """Seconds of one of `count` calls in sequence. Before, one is not counted, or those of `warm` seconds."""
    time.sleep(PAUSE)
    end = time.perf_counter() + warm
    call()
    while time.perf_counter() < end:
        call()
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count


def interleaved(
    calls: Mapping[str, Callable[[], Any]],
    budget: float = 3.0,
    least: int = 7,
    clock: Clock = time.perf_counter,
    pause: float = 0.0,
) -> dict[str, Timing]:
    """Times of calls that take turns for about `budget` seconds, each `least` turns or more.

    pause: seconds before each turn, which then begins with a call that is not measured. Some threads go on
    looking for work for so long, and would take a processor from whose turn it is.
    """
    turns = {name: functools.partial(turn, call, clock=clock) for name, call in calls.items()}
    return alternate(turns, budget, least, pause)


def alternate(
    turns: Mapping[str, Callable[[int], float]], budget: float, least: int = 7, pause: float = 0.0
) -> dict[str, Timing]:
    """The same where a turn is what a function does: of a count of calls, the seconds that one takes."""
    counts = {name: max(1, round(TURN / run(1))) for name, run in turns.items()}
    samples: dict[str, list[float]] = {name: [] for name in turns}
    end, rounds = time.perf_counter() + budget, 0
    while rounds < least or time.perf_counter() < end:
        for name, run in turns.items():
            if pause:
                time.sleep(pause)
                run(1)
            samples[name].append(run(counts[name]))
        rounds += 1
    return {name: Timing(*quantiles(s, n=4), rounds) for name, s in samples.items()}


def resident() -> int:
    """Bytes of the process that are in memory."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def in_process(module: str, *arguments: str, **environment: str) -> Any:
    """The JSON that `python -m module` prints last, in a process of its own."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        command, env=os.environ | environment, stdout=subprocess.PIPE, check=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says on standard error what takes so long, from the first second on, if a person reads it."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()

    def show() -> None:
        if done.wait(1.0):
            return
        with tqdm(desc=what, bar_format="{desc} {elapsed}", leave=False) as line:
            while not done.wait(0.5):
                line.update()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
