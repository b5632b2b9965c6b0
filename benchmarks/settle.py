"""From the first call to settled speed, and how fast calls are meanwhile.

`python -m benchmarks.settle CASE` is a process with an empty cache: it calls the program over and over
while gcc compiles in the background, and prints one line of JSON.
"""

import json
import sys
import tempfile
import time
from statistics import median
from typing import Any

from rich.table import Table
from tqdm import tqdm

from benchmarks.measure import in_process, seconds

CASES = ("fifteen", "mlp", "gpt", "gpt12", "bert", "llama")


def child(case: str) -> dict[str, float]:
    """Seconds until settled after the first call's return, and of a call before, after and by libtcc."""
    import torch

    import dlc
    from benchmarks.first_call import program
    from benchmarks.measure import interleaved, timed
    from benchmarks.peers import compiled, ready

    target, inputs = program(case)
    with torch.no_grad():
        run = compiled("dlc", target)
        run(*inputs)
        meanwhile, start = [], time.perf_counter()
        while not dlc.wait(0):
            meanwhile.append(timed(lambda: run(*inputs))[0])
        until = time.perf_counter() - start
        libtcc = ready("tcc", target, inputs)
        after = interleaved({"tcc": libtcc, "dlc": lambda: run(*inputs)})
    return {
        "until": until,
        "calls": len(meanwhile),
        "meanwhile": median(meanwhile),
        "tcc": after["tcc"].median,
        "dlc": after["dlc"].median,
    }


def measure(case: str) -> dict[str, float]:
    """The same in a new process, with a cache in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return in_process("benchmarks.settle", case, DLC_CACHE_DIR=folder)


def run(only: str, repeats: int) -> list[dict[str, Any]]:
    """Medians over `repeats` processes a case."""
    jobs = [case for case in CASES if only in case for _ in range(repeats)]
    found: dict[str, list[dict[str, float]]] = {}
    with tqdm(jobs, disable=None, leave=False) as line:
        for case in line:
            line.set_description(case)
            found.setdefault(case, []).append(measure(case))
    return [{"case": c} | {k: median(r[k] for r in rs) for k in rs[0]} for c, rs in found.items()]


def table(rows: list[dict[str, Any]]) -> Table:
    shown = Table(title="while gcc compiles in the background")
    shown.add_column("case")
    for name in ("until settled", "a call meanwhile", "of libtcc's speed", "a call of libtcc", "settled"):
        shown.add_column(name, justify="right")
    for r in rows:
        speed = f"{r['tcc'] / r['meanwhile']:.2f}\u00d7"
        cells = seconds(r["until"]), seconds(r["meanwhile"]), speed, seconds(r["tcc"]), seconds(r["dlc"])
        shown.add_row(r["case"], *cells)
    return shown


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1])))
