"""Work that fits in a core's first cache runs on the thread that calls: none is started for it."""

import sys

import pytest

from tests.fresh import run
from tests.shards import ROOT

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


def in_a_child(run):  # a thread that was started stays: each case has a process
    child = os.fork()
    if child == 0:
        status = 2
        try:
            status = int(run() > 0)
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1), status
    return status


# What a first compile imports is there before the children are made. dlc is not: it starts no threads in a
# child of a process that has it.
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(4))
assert "dlc.backend" not in sys.modules
cases = {case.title: case for case in CASES}
for word in sys.argv[1:]:
    size, title = word.split(":")
    if in_a_child(lambda: started(cases[title], SIZES[size])):
        print(word)
"""

#: Of every kind of loops, and what computes much of an element.
TITLES = (
    "chain", "fifteen", "black_scholes", "softmax", "layer_norm", "column_sum", "mean of axis 0", "argmax",
    "cumsum", "cross_entropy", "embedding_sum", "rotary", "transpose_add", "stencil",
)  # fmt: skip


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")


LONGER = ("chain", "mean of axis 2", "transpose_add")


@pytest.fixture(scope="module")
def starting() -> set[str]:
    """The cases that started a thread, with their sizes."""
    words = [f"l1:{title}" for title in TITLES] + [f"l2:{title}" for title in LONGER]
    done = run(SCRIPT, *words, where={"folder": ROOT})
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines())


@pytest.mark.in_turn(3)
def test_small_work_starts_no_thread(starting: set[str]) -> None:
    assert not [word for word in starting if word.startswith("l1:")]


@pytest.mark.parametrize("title", LONGER)
def test_work_of_a_second_cache_starts_one(title: str, starting: set[str]) -> None:
    """What a sum does with each element counts, and all rows of a tile do."""
    assert f"l2:{title}" in starting
