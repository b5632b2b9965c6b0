"""What the first call costs: each figure from a process of its own with empty caches.

`python -m benchmarks.first_call CASE PEER` is that process: it prints one line of JSON. What any program
would have done before is not counted: imports, and one compile of something trivial by the same peer.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks.peers import available

CASES = ("fifteen", "black_scholes", "mlp", "gpt", "resnet")
PEERS = ("dynamo", "aot_eager", "tcc", "dlc", "inductor")


def child(case: str, peer: str) -> dict[str, float]:
    """Compiles and runs the case once; seconds of the call, and of dlc's own part in it."""
    import torch

    from benchmarks.measure import timed
    from benchmarks.peers import compiled
    from examples.programs import FUNCTIONS, MODELS

    def own_seconds() -> float:
        if peer not in ("tcc", "dlc"):
            return math.nan
        import dlc

        return float(dlc.counters()["backend_seconds"])

    if case in FUNCTIONS:
        target, inputs = FUNCTIONS[case].call, FUNCTIONS[case].arguments(4096)
    else:
        target, inputs = MODELS[case].build(), MODELS[case].arguments()
    with torch.no_grad():
        compiled(peer, lambda x: x + 1)(torch.zeros(4))
        before = own_seconds()
        seconds, _ = timed(lambda: compiled(peer, target)(*inputs))
    return {"seconds": seconds, "own": own_seconds() - before}


def measure(case: str, peer: str) -> dict[str, float]:
    """The same in a new process, with caches in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        caches = dict.fromkeys(("DLC_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"), folder)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.first_call", case, peer],
            env=os.environ | caches,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def run(only: str, peers: list[str], repeats: int) -> list[dict[str, Any]]:
    """Medians over `repeats` processes for each case and peer."""
    cases = [case for case in CASES if only in case]
    jobs = [(c, p) for c in cases for p in available(peers)]
    rows: dict[str, dict[str, Any]] = {c: {"case": c} for c in cases}
    with tqdm(jobs, disable=None, leave=False) as line:
        for case, peer in line:
            line.set_description(f"{case}, {peer}")
            runs = [measure(case, peer) for _ in range(repeats)]
            rows[case][peer] = median(r["seconds"] for r in runs)
            if peer in ("tcc", "dlc"):
                rows[case][f"{peer}_own"] = median(r["own"] for r in runs)
    return list(rows.values())


if __name__ == "__main__":
    print(json.dumps(child(*sys.argv[1:])))
