"""How dlc's own part of a first call grows with the graph, in the libtcc tier.

`python -m benchmarks.growth SHAPE NODES` is a process with an empty cache: it compiles one graph and
prints one line of JSON. What Dynamo takes to capture it is not in the figures.
"""

import json
import sys
import tempfile
from statistics import median
from typing import Any

from rich.table import Table
from tqdm import tqdm

from benchmarks.measure import columns, in_process, seconds

NODES = (10, 100, 1000, 5000)


def chain(x: Any, nodes: int) -> Any:
    """Each value is made of the one before it."""
    for k in range(nodes):
        x = (x * 0.9).sin() if k % 2 else x + 0.5
    return x


def fan_out(x: Any, nodes: int) -> Any:
    """Each value is made of the input, and one sum of all of them."""
    total = x
    for k in range(nodes):
        total = total + (x + k).sin()
    return total


def results(x: Any, nodes: int) -> Any:
    """Each value is made of the input, and is a result."""
    return [(x + k).sin() for k in range(nodes)]


SHAPES = {"chain": chain, "fan-out": fan_out, "results": results}


def child(shape: str, nodes: str) -> dict[str, float]:
    """Compiles one graph: seconds of dlc's own part, and how many kernels came of it."""
    import torch

    import dlc
    from benchmarks.peers import compiled

    x = torch.randn(1000)
    compiled("tcc", lambda x: x + 1)(torch.zeros(4))
    before = dlc.counters()
    compiled("tcc", SHAPES[shape])(x, int(nodes))
    after = dlc.counters()
    return {key: after[key] - before[key] for key in ("backend_seconds", "kernels")}


def measure(shape: str, nodes: int) -> dict[str, float]:
    """The same in a new process, with a cache in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return in_process("benchmarks.growth", shape, str(nodes), DLC_CACHE_DIR=folder)


def run(only: str, repeats: int) -> list[dict[str, Any]]:
    """Medians over `repeats` processes a graph."""
    rows = []
    with tqdm([(s, n) for s in SHAPES if only in s for n in NODES], disable=None, leave=False) as line:
        for shape, nodes in line:
            line.set_description(f"{shape} of {nodes}")
            found = [measure(shape, nodes) for _ in range(repeats)]
            row = {key: median(r[key] for r in found) for key in found[0]}
            rows.append({"case": shape, "nodes": nodes} | row)
    return rows


def table(rows: list[dict[str, Any]]) -> Table:
    shown = columns("dlc's own part of a first call (libtcc)", "graph, nodes, kernels, own part, a node")
    for r in rows:
        own = r["backend_seconds"]
        shown.add_row(r["case"], str(r["nodes"]), str(r["kernels"]), seconds(own), seconds(own / r["nodes"]))
    return shown


if __name__ == "__main__":
    print(json.dumps(child(*sys.argv[1:])))
