"""A compile and a call with little address space at each level: `python -m tests.alloc.limit [LEVEL ...]`.

Prints of each level how its process ended, and what it did: see test_alloc.py.
"""

import ctypes
import gc
import os
import resource
import sys
from typing import Any

import torch

import dlc.backend  # noqa: F401
from dlc import _C

LEVELS = 20
STEP = 192 << 10  # bytes more a level


def used() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Rows, sums, and products of dlc's own, which take panels for each thread."""
    z = (torch.softmax(x * y + 1, -1) + torch.sin(x) * y.sum()).relu()
    return z + torch.softmax(x @ y.t(), -1) @ y


def captured(x: torch.Tensor, y: torch.Tensor) -> Any:
    """The graph as Dynamo gives it: what Dynamo itself does without memory is not the question."""
    graphs = []

    def backend(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return graph

    torch.compile(f, backend=backend)(x, y)
    return graphs[0]


def attempt(graph: Any, x: torch.Tensor, y: torch.Tensor, level: int) -> None:
    want = f(x, y)

    def run() -> torch.Tensor:
        compiled = _C.compile(graph, graph.forward, tier="tcc", cache="", direct=True, products="own")
        assert compiled.calls == 0
        return compiled(x, y)[0]

    assert torch.allclose(run(), want)
    _C.release()
    ctypes.CDLL(None).malloc_trim(0)  # what is free in the heap would do for all of it
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used() + level * STEP, unlimited[1]))
    outcome = "right"
    try:
        right = torch.allclose(run(), want)
    except (MemoryError, RuntimeError) as error:
        outcome = f"{type(error).__name__}: {error}"
        right = True
    resource.setrlimit(resource.RLIMIT_AS, unlimited)
    assert right and torch.allclose(run(), want)
    print(level, outcome, flush=True)


def main() -> None:
    """Each level in a child of its own: torch is imported, and the graph captured, once for all.

    On one thread until then: a child has none of its parent's threads, and OpenMP would wait for them.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    x, y = torch.rand(60, 400), torch.rand(60, 400)
    graph = captured(x, y)
    gc.freeze()
    torch.set_num_threads(threads)
    for level in map(int, sys.argv[1:] or range(LEVELS)):
        child = os.fork()
        if child == 0:
            attempt(graph, x, y, level)
            sys.exit()
        _, status = os.waitpid(child, 0)
        print(level, "ended with", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
