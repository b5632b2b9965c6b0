"""dlc without torch.compile's frame around each call: dlc.jit, and artifacts of aot_compile."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

Call = Callable[..., Any]
Inputs = tuple[Any, ...]


def jit(target: Call, inputs: Inputs) -> tuple[Call, Inputs]:
    import dlc

    return dlc.jit(target), inputs


def jit_numpy(target: Call, inputs: Inputs) -> tuple[Call, Inputs]:
    return jit(target, tuple(x.numpy() for x in inputs))


def artifact(target: Call, inputs: Inputs) -> tuple[Call, Inputs]:
    """The function as another process would have it: saved and loaded, its guards checked at each call."""
    compiled = torch.compile(target, fullgraph=True, backend="dlc").aot_compile((inputs, {}))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "function.bin")
        compiled.save_compiled_function(str(file))
        with file.open("rb") as saved:
            return torch.compiler.load_compiled_function(saved), inputs


def artifact_bare(target: Call, inputs: Inputs) -> tuple[Call, Inputs]:
    run, inputs = artifact(target, inputs)
    run.disable_guard_check()
    return run, inputs


DIRECT: dict[str, tuple[str, Callable[[Call, Inputs], tuple[Call, Inputs]]]] = {
    "jit": ("dlc.jit", jit),
    "jit_numpy": ("dlc.jit, NumPy", jit_numpy),
    "artifact": ("loaded artifact", artifact),
    "artifact_bare": ("artifact, no guards", artifact_bare),
}
