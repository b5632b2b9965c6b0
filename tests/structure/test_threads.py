"""Work that fits in a core's first cache runs on the thread that calls; sums of the second's size do not."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
import sys

import torch

from benchmarks.cases import CASES, SIZES
from benchmarks.peers import own_code

torch.set_num_threads(2)


def started(case, elements):
    inputs, options = case.arguments(elements), {"tier": "tcc", "cache": False, "strict": True}
    compiled = torch.compile(own_code(case.call), backend="dlc", dynamic=False, options=options)
    before = len(os.listdir("/proc/self/task"))
    compiled(*inputs)
    return len(os.listdir("/proc/self/task")) - before


cases = {case.title: case for case in CASES}
small = [title for title in sys.argv[1:] if started(cases[title], SIZES["l1"])]
print(small, started(cases["mean of axis 2"], SIZES["l2"]))
"""

#: Of every kind of loops, and what computes much of an element.
TITLES = (
    "chain", "fifteen", "black_scholes", "softmax", "layer_norm", "column_sum", "mean of axis 0", "argmax",
    "cumsum", "cross_entropy", "embedding_sum", "rotary", "transpose_add", "stencil",
)  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_small_work_starts_no_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *TITLES],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["[]", "1"], "sums of 131,072 numbers start a thread, no small call does"
