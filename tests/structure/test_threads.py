"""Work that fits in a core's first cache runs on the thread that calls: none is started for it."""

import ast
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
print([title for title in sys.argv[2:] if started(cases[title], SIZES[sys.argv[1]])])
"""

#: Of every kind of loops, and what computes much of an element.
TITLES = (
    "chain", "fifteen", "black_scholes", "softmax", "layer_norm", "column_sum", "mean of axis 0", "argmax",
    "cumsum", "cross_entropy", "embedding_sum", "rotary", "transpose_add", "stencil",
)  # fmt: skip


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")


def starting(size: str, *titles: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, size, *titles],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    return ast.literal_eval(done.stdout)


def test_small_work_starts_no_thread() -> None:
    assert starting("l1", *TITLES) == []


@pytest.mark.parametrize("title", ["chain", "mean of axis 2", "transpose_add"])
def test_work_of_a_second_cache_starts_one(title: str) -> None:
    """What a sum does with each element counts, and all rows of a tile do."""
    assert starting("l2", title) == [title]
