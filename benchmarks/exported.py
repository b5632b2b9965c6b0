"""Exported C beside dlc: one call with one thread of each model of tests/files/test_models.py.

`python -m benchmarks.exported FILE BUDGET` is a process for one saved model: it prints one line of JSON. dlc
is the loaded model when all of its kernels are gcc's, without Python around it. C is the folder that export_c
writes, built by gcc with the flags of its own Makefile. Both get the stored example. The figure is the least
processor time of the turns: whatever else the machine does only makes a turn longer.
"""

import ctypes
import json
import math
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from tqdm import tqdm

from benchmarks.measure import columns, in_process, seconds

#: A turn lasts this long, so that a clock is exact enough and another process rarely comes between.
TURN = 0.002


def cases(small: bool) -> Iterator[tuple[str, Callable[[], Any], list[tuple[Any, ...]]]]:
    """Name, model and arguments of two sizes; small: the sizes of the tests."""
    import torch

    from examples.programs import FUNCTIONS, MODELS
    from tests.files.networks import NETWORKS
    from tests.files.test_models import FIXED
    from tests.models.test_transformers import ARCHITECTURES, build, inputs

    for name, about in MODELS.items():
        usual = about.length if not small else 12 if about.varies == "length" else 3
        calls = [about.arguments(small, length, length) for length in (usual, usual + 5)]
        yield name, lambda about=about: about.build(small), calls  # type: ignore[misc]
    for name in ARCHITECTURES:
        model, lengths = build(name), (12, 12) if name in FIXED else (12, 9)
        yield name, lambda model=model: model, [(inputs(model, n, k),) for k, n in enumerate(lengths)]  # type: ignore[misc]
    for name, (network, arguments) in NETWORKS.items():
        torch.manual_seed(0)
        yield name, lambda network=network: network().eval(), [arguments(k) for k in range(2)]  # type: ignore[misc]
    for name, function in FUNCTIONS.items():
        calls = [function.arguments(n) for n in (4096, 3081)]
        yield name, lambda function=function: function.call, calls  # type: ignore[misc]


def exported(model: Any, folder: Path) -> Callable[[], None]:
    """A call of the model's C with the stored example, whose results are compared with dlc's."""
    model.export_c(folder)
    flags = re.findall(r"-\S+", (folder / "Makefile").read_text().partition("check:")[0])
    strict = ["-std=c11", "-ffp-contract=off", "-fwrapv", "-fno-math-errno", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, *strict, "-o", "m.so", "m.c"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "m.so"))
    library.m_workspace.restype = ctypes.c_size_t
    weights = []
    if (folder / "m.safetensors").exists():
        file = np.memmap(folder / "m.safetensors", np.uint8, "r")
        fields = re.findall(r"^    const \w+ \*\w+;$", (folder / "m.h").read_text(), re.MULTILINE)
        weights = [(ctypes.c_void_p * len(fields))()]  # of m_weights
        place = ctypes.c_void_p(file.ctypes.data)
        assert library.m_bind(weights[0], place, ctypes.c_size_t(file.size)) == 0
        library.file = file  # mapped while the library is
    sizes, arrays, results = model._example_of_call()
    values = [ctypes.c_int64(n) for n in sizes.values()]
    given = [np.ascontiguousarray(array).copy() for array in arrays]
    made = [np.empty_like(array, order="C") for array in results]
    work = np.empty(library.m_workspace(*values), np.uint8)
    every = [*given, *made, work]
    library.arrays = every  # alive while the library is
    places = [ctypes.c_void_p(array.ctypes.data) for array in every]  # once: each takes a microsecond
    arguments = (*weights, *values, *places, None)

    def call() -> None:
        status = library.m_run(*arguments)
        assert status == 0, status

    call()
    for k, (have, want) in enumerate(zip(made, results, strict=True)):
        assert have.tobytes() == want.tobytes(), f"result {k} has other bits"
    return call


def least(calls: dict[str, Callable[[], Any]], budget: float) -> dict[str, float]:
    """Seconds of processor time of a call, the least of the turns, which alternate."""
    counts = {}
    for name, call in calls.items():
        start, counts[name] = time.process_time(), 0
        while time.process_time() - start < TURN:
            call()
            counts[name] += 1
    found = dict.fromkeys(calls, math.inf)
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        for name, call in calls.items():
            call()
            start = time.process_time()
            for _ in range(counts[name]):
                call()
            found[name] = min(found[name], (time.process_time() - start) / counts[name])
    return found


def child(path: Path, budget: float) -> dict[str, Any]:
    import dlc

    model = dlc.load(path)
    arrays = model._example_arrays()
    model._run(*[array.copy() for array in arrays])
    dlc.wait()
    with tempfile.TemporaryDirectory() as folder:
        by_c = exported(model, Path(folder))
        given = [np.ascontiguousarray(array).copy() for array in arrays]
        return least({"dlc": lambda: model._run(*given), "c": by_c}, budget)


def run(only: str, budget: float, small: bool) -> Iterator[dict[str, Any]]:
    """A row for each model."""
    import dlc
    from tests.files.test_models import dims

    names = only.split(",")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with tqdm(cases(small), disable=None, leave=False) as line:
            for name, build, calls in line:
                if not any(part in name for part in names):
                    continue
                line.set_description(name)
                path = Path(folder) / f"{name}.dlc"
                dlc.save(build(), path, calls[0], dynamic_shapes=dims(*calls))
                environment = {"OMP_NUM_THREADS": "1", "DLC_CACHE_DIR": folder}
                found = in_process("benchmarks.exported", str(path), str(budget), **environment)
                yield {"case": name} | found


def ratio(row: dict[str, Any]) -> float:
    return row["dlc"] / row["c"]


def table(rows: list[dict[str, Any]]) -> Table:
    made = columns("exported C, one thread; above 1, C is faster", "model, dlc, C, ratio")
    for row in sorted(rows, key=ratio):
        made.add_row(row["case"], seconds(row["dlc"]), seconds(row["c"]), f"{ratio(row):.2f}")
    if rows:
        mean = math.exp(sum(math.log(ratio(row)) for row in rows) / len(rows))
        made.add_row("geometric mean", "", "", f"{mean:.2f}")
    return made


if __name__ == "__main__":
    print(json.dumps(child(Path(sys.argv[1]), float(sys.argv[2]))))
