"""A loop of steps in a kernel kept the interpreter's lock once it had asked for signals between two pieces.

Then no other thread ran until the loop ended.
"""

import os
import signal
import threading
import time

import numpy as np
import pytest

import dlc


def function(a: np.ndarray, steps: int) -> None:
    for _ in range(steps):
        for j in range(1, len(a)):
            a[j] = a[j - 1] * 0.5 + a[j] * 0.25


def test_another_thread_runs_meanwhile() -> None:
    fast, a = dlc.jit(function, tier="tcc"), np.ones(64)
    for steps in (100, 101):  # the second one is compiled for any number of steps
        fast(a, steps)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fast(a, 50_000_000)
    assert time.monotonic() - start < 10
