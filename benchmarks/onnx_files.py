"""Files of ONNX: dlc.load beside onnxruntime, in turns, with one thread and with two.

`python -m benchmarks.onnx_files FILE THREADS BUDGET` is a process for one file, with an empty cache: it
prints one line of JSON. Models are those that the onnx package ships, whose weights are all alike, and models
of examples/programs, exported by torch. The time to start is that of dlc.load and its first call, and of the
creation of a session. It is measured twice: "again" is a second process, which finds the first one's cache.
"""

import json
import math
import sys
import tempfile
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.table import Table
from tqdm import tqdm

from benchmarks.measure import columns, in_process, interleaved, seconds, timed

SHIPPED = ("resnet50", "densenet121", "inception_v1", "inception_v2", "shufflenet", "squeezenet")
OWN = ("gpt", "bert", "llama", "vit")
CASES = (*SHIPPED, *OWN)
THREADS = (1, 2)
#: Seconds that onnxruntime's threads look for work after a call, and more.
SPIN = 0.15


def write(case: str, folder: str) -> str:
    """The path of the model."""
    if case in SHIPPED:
        import onnx.backend.test

        return str(Path(onnx.backend.test.__file__).parent / "data" / "light" / f"light_{case}.onnx")
    import torch

    from examples.programs import MODELS

    path = f"{folder}/{case}.onnx"
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(MODELS[case].build(), MODELS[case].arguments(), path, dynamo=True, verbose=False)
    return path


def feeds(session: Any) -> dict[str, np.ndarray]:
    """Random arrays of the inputs; numbers of words and of their kinds are 0 or 1."""
    rng, made = np.random.default_rng(0), {}
    for value in session.get_inputs():
        shape = [n if isinstance(n, int) else 1 for n in value.shape]
        made[value.name] = (
            rng.integers(0, 2, shape) if "int" in value.type else rng.standard_normal(shape, np.float32)
        )
    return made


def child(path: str, threads: int, budget: float) -> dict[str, Any]:
    """Seconds to start and of a call, of both; the largest difference, relative to the largest result."""
    import onnxruntime

    import dlc

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    created, session = timed(
        lambda: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    )
    given = feeds(session)
    loaded, model = timed(lambda: dlc.load(path))
    first, results = timed(lambda: model(**given))
    wanted = session.run(None, given)
    results = results if isinstance(results, tuple) else (results,)
    far = max(
        float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in zip(results, wanted, strict=True)
    )
    dlc.wait()
    times = interleaved(
        {"dlc": lambda: model(**given), "onnxruntime": lambda: session.run(None, given)},
        budget,
        pause=SPIN if threads > 1 else 0.0,
    )
    return {
        "start": loaded + first,
        "created": created,
        "far": far,
        "dlc": times["dlc"].data(),
        "onnxruntime": times["onnxruntime"].data(),
    }


def run(only: str, budget: float, repeats: int, threads: int | None) -> list[dict[str, Any]]:
    """A row for each model and number of threads; starts are medians over `repeats` processes."""
    rows = []
    jobs = [(n, case) for n in ([threads] if threads else THREADS) for case in CASES if only in case]
    with tempfile.TemporaryDirectory() as folder:
        paths = {case: write(case, folder) for case in dict.fromkeys(case for _, case in jobs)}
        with tqdm(jobs, disable=None, leave=False) as line:
            for n, case in line:
                line.set_description(case)
                found = []
                for k in range(repeats):
                    with tempfile.TemporaryDirectory() as cache:
                        environment = {
                            "DLC_CACHE_DIR": cache,
                            "OMP_NUM_THREADS": str(n),
                            "PYTHONDONTWRITEBYTECODE": "",  # users have bytecode
                            "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
                        }
                        first, again = (
                            in_process("benchmarks.onnx_files", paths[case], str(n), str(b), **environment)
                            for b in (budget if k == 0 else 0.0, 0.0)
                        )
                        found.append(first | {"again": again["start"]})
                row = found[0] | {key: median(r[key] for r in found) for key in ("start", "again", "created")}
                rows.append({"case": case, "threads": n} | row)
    return rows


def ratio(row: dict[str, Any]) -> float:
    return row["onnxruntime"]["median"] / row["dlc"]["median"]


def spread(time: dict[str, float]) -> str:
    return f"{seconds(time['median'])} \u00b1{50 * (time['high'] - time['low']) / time['median']:.0f}%"


def table(rows: list[dict[str, Any]]) -> Table:
    made = columns(
        "files of ONNX; above 1, dlc is faster",
        "model, threads, dlc, onnxruntime, ratio, load and first call, again, session, difference",
    )
    for row in rows:
        made.add_row(
            row["case"], str(row["threads"]), spread(row["dlc"]), spread(row["onnxruntime"]),
            f"{ratio(row):.2f}", seconds(row["start"]), seconds(row["again"]), seconds(row["created"]),
            f"{row['far']:.1e}",
        )  # fmt: skip
    for threads in sorted({row["threads"] for row in rows}):
        ratios = [ratio(row) for row in rows if row["threads"] == threads]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        made.add_row("geometric mean", str(threads), "", "", f"{mean:.2f}")
    return made


if __name__ == "__main__":
    print(json.dumps(child(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
