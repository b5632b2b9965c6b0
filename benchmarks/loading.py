"""What a saved model costs where torch is not: `import dlc`, dlc.load with the first call, and memory.

`python -m benchmarks.loading FILE` is a process for one saved model, in which torch cannot be imported: it
prints one line of JSON. A model has a row for an empty cache, and one for processes that come later. Python's
modules are compiled, as pip leaves them. Times are of the processor, with the file in memory. Memory is what
is resident at most, without what the process had before dlc.load, the weights and the workspace.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table
from tqdm import tqdm

from benchmarks.measure import columns, in_process, resident, seconds

#: Of examples.programs, with the length of a call; what the second one has besides.
CASES: dict[str, tuple[str, dict[str, int]]] = {
    "ResNet-18": ("resnet", {}),
    "GPT, 6 layers": ("gpt", {"layers": 6}),
}


def child(path: Path) -> dict[str, Any]:
    sys.modules["torch"] = None  # type: ignore[assignment]
    path.read_bytes()
    start = time.process_time()
    import dlc
    import dlc.files.model  # which dlc.load imports, with NumPy

    imported, before = time.process_time() - start, resident()
    start = time.process_time()
    model = dlc.load(path, tier="tcc")
    loaded = time.process_time() - start
    arrays = model._example_arrays()
    start = time.process_time()
    model._run(*arrays)
    first = time.process_time() - start
    start = time.process_time()
    model._run(*arrays)
    second = time.process_time() - start
    # Not of getrusage, which counts the process that has started this one.
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024
    sizes = model._example_of_call()[0]
    weights = sum(array.nbytes for array in model._fixed.values())
    return {
        "import": imported,
        "load": loaded,
        "first": first,
        "second": second,
        "weights": weights,
        "workspace": model.bytes(**sizes),
        "besides": peak - before - weights - model.bytes(**sizes),
    }


def run(only: str, repeats: int) -> Iterator[dict[str, Any]]:
    """Rows for each model: of the first process, and of a later one with the least time."""
    import dlc
    from examples.programs import MODELS

    with tempfile.TemporaryDirectory() as folder, tqdm(CASES.items(), disable=None, leave=False) as line:
        for name, (model, more) in line:
            if only not in name:
                continue
            path, about = Path(folder) / "m.dlc", MODELS[model]
            dlc.save(about.kind(**more).eval(), path, about.arguments())
            compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/modules"}
            found = []
            for cache in ("modules", name, *[name] * repeats):
                environment = {
                    "DLC_CACHE_DIR": f"{folder}/cache of {cache}",
                    "OMP_NUM_THREADS": "1",
                    **compiled,
                }
                found.append(in_process("benchmarks.loading", str(path), **environment))
            yield {"case": f"{name}, empty cache"} | found[1]
            yield {"case": name} | min(found[2:], key=lambda row: row["load"] + row["first"])


def table(rows: list[dict[str, Any]]) -> Table:
    made = columns(
        "saved models without torch: processor time, and MB",
        "model, import dlc, dlc.load, first call, second call, load and first call, weights, workspace, "
        "memory besides",
    )
    for row in rows:
        times = (row["import"], row["load"], row["first"], row["second"], row["load"] + row["first"])
        sizes = (row["weights"], row["workspace"], row["besides"])
        made.add_row(row["case"], *map(seconds, times), *(f"{n / 1e6:.1f}" for n in sizes))
    return made


if __name__ == "__main__":
    print(json.dumps(child(Path(sys.argv[1]))))
