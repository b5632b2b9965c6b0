"""What the first call costs: each figure from a process of its own with empty caches.

`python -m benchmarks.first_call CASE PEER WAY` is that process: it prints one line of JSON. What any
program would have done before is not counted: imports, and one compile of something trivial by the same
peer. `warm` is a second process that finds the caches of a first, which has settled.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks.measure import in_process
from benchmarks.peers import available

OWN = ("fifteen", "black_scholes", "mlp", "gpt", "gpt12", "resnet", "bert", "llama")
#: Of the transformers library, see decoders.py.
DECODERS = (
    "Llama", "Qwen2", "Mistral", "Gemma2", "Phi", "GPT-NeoX", "OPT", "Whisper", "T5",
    "Granite", "OLMo2", "Cohere", "StarCoder2", "GPT-2",
)  # fmt: skip
CASES = (*OWN, *DECODERS)
PEERS = ("dynamo", "aot_eager", "tcc", "dlc", "inductor")
WAYS = {
    "static": "evaluation",
    "dynamic": "evaluation, dynamic=True",
    "marked": "evaluation, one axis marked as dynamic",
    "train": "training: forward and backward",
}
FIGURES = {
    "seconds": "first call, {}, empty caches; in brackets over Dynamo alone",
    "own": "the backend's own part of it",
    "memory": "memory the process has grown by when all is settled",
}


def program(case: str) -> tuple[Any, tuple[Any, ...]]:
    """What is compiled, and its inputs."""
    from examples.programs import FUNCTIONS, MODELS
    from examples.programs.gpt import GPT

    if case in DECODERS:
        from benchmarks import decoders

        return decoders.build(case), decoders.arguments(case)
    if case in FUNCTIONS:
        return FUNCTIONS[case].call, FUNCTIONS[case].arguments(4096)
    if case == "gpt12":
        return GPT(layers=12).eval(), MODELS["gpt"].arguments()
    return MODELS[case].build(), MODELS[case].arguments()


def mark(case: str, inputs: tuple[Any, ...]) -> None:
    """Marks the axes that another length of the case's inputs would change."""
    import torch

    from examples.programs import FUNCTIONS, MODELS

    if case in DECODERS:
        from benchmarks import decoders

        other = decoders.arguments(case, decoders.LENGTH + 3)
    elif case in FUNCTIONS:
        other = FUNCTIONS[case].arguments(4099)
    else:
        about = MODELS[case.removesuffix("12")]
        other = about.arguments(length=about.length + 3)
    for x, y in zip(inputs, other, strict=True):
        for axis, (m, n) in enumerate(zip(x.shape, y.shape, strict=True)):
            if m != n:
                torch._dynamo.mark_dynamic(x, axis)


def total(result: Any) -> Any:
    """The sum of all that a model returns."""
    return sum(map(total, result)) if isinstance(result, tuple | list) else result.sum()


def prepared(case: str, way: str) -> tuple[Any, Callable[[Any], Any]]:
    """What is compiled, and the call that is timed, which takes the compiled."""
    import torch

    target, inputs = program(case)
    if way == "marked":
        mark(case, inputs)
    if way != "train":
        return target, lambda run: run(*inputs)
    if isinstance(target, torch.nn.Module):
        target.train()
    else:
        inputs = tuple(x.requires_grad_() for x in inputs)
    return target, lambda run: total(run(*inputs)).backward()


def child(case: str, peer: str, way: str) -> dict[str, float]:
    """Compiles and runs the case once.

    Seconds of the call and of the backend's own part in it, and by how many bytes the process has
    grown until all is settled.
    """
    import torch

    from benchmarks.measure import resident, timed
    from benchmarks.peers import compiled, settle

    def own_seconds() -> float:
        if peer not in ("tcc", "dlc", "warm"):
            return sum(torch._dynamo.utils.compilation_time_metrics["OutputGraph.call_user_compiler"])
        import dlc

        return float(dlc.counters()["backend_seconds"])

    target, call = prepared(case, way)
    dynamic = way == "dynamic" or None
    with torch.set_grad_enabled(way == "train"):
        call(target)
        compiled(peer, lambda x: x + 1)(torch.zeros(4))
        before, size = own_seconds(), resident()
        seconds, _ = timed(lambda: call(compiled(peer, target, dynamic)))
        own = own_seconds() - before
        settle(peer)
    return {"seconds": seconds, "own": own, "memory": resident() - size}


def put_first(folder: str) -> None:
    """The packages of a folder, of `pip install --target`, come first in all processes from here on."""
    paths = [str(Path(folder).resolve()), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def versions() -> str:
    """What is measured, as a new process finds it."""
    code = (
        "import json, importlib.metadata as m;"
        "print(json.dumps([m.version(p) for p in ('torch', 'transformers')]))"
    )
    found = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True)
    return "torch {}, transformers {}".format(*json.loads(found.stdout))


def measure(case: str, peer: str, way: str) -> dict[str, float]:
    """The same in a new process, with caches in a folder that is deleted afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        caches = dict.fromkeys(("DLC_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"), folder)
        for _ in range(2 if peer == "warm" else 1):
            figures = in_process("benchmarks.first_call", case, peer, way, **caches)
    return figures


def run(only: str, peers: list[str], repeats: int, way: str = "static") -> list[dict[str, Any]]:
    """Medians over `repeats` processes: for each case, figure and peer; the peers take turns.

    only: cases with one of these texts in their name, a comma between them.
    """
    rows = []
    cases = [case for case in CASES if any(text in case for text in only.split(","))]
    jobs = [(c, r, p) for c in cases for r in range(repeats) for p in available(peers)]
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    with tqdm(jobs, disable=None, leave=False) as line:
        for case, _, peer in line:
            line.set_description(f"{case}, {peer}")
            found.setdefault((case, peer), []).append(measure(case, peer, way))
    for case in cases:
        row: dict[str, Any] = {"case": case}
        for key in FIGURES:
            row[key] = {p: median(r[key] for r in found[case, p]) for p in available(peers)}
        rows.append(row)
    return rows


if __name__ == "__main__":
    print(json.dumps(child(*sys.argv[1:])))
