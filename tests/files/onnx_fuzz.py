"""Random graphs of ONNX: dlc.load against onnx.reference. python -m tests.files.onnx_fuzz [save] FIRST COUNT

A program is 1 to 8 random nodes over random inputs. The reference evaluator runs each node as it is drawn, so
that a node that it cannot run, or whose result is infinite, is left out. What is a step function gets numbers
that are exact: inputs are multiples of 1/8, and an operator that rounds makes numbers that are not exact.
With `save`, dlc saves each program as ONNX again, and onnxruntime runs that.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import warnings
from typing import Any

import numpy as np
import onnx

from dlc import FileError
from dlc.files.onnx import translated
from tests.files.onnx_draws import DRAWS
from tests.files.onnx_program import Program

#: Of a result, relative to its largest number.
TOLERANCE = {"float16": 2e-2, "float32": 2e-4, "float64": 2e-4}


def program(seed: int) -> Program:
    made = Program(seed)
    made.build(made.rng.randint(1, 8), DRAWS)
    return made


def loaded(p: Program) -> Any:
    """The program's model; raises FileError."""
    if p.dynamic is not None:  # a size may decide what is possible
        with contextlib.suppress(FileError):
            bound = (min(p.dynamic, 1), None)
            return translated(p.model(True), ".", {}, {"size": bound}, "tcc")
    return translated(p.model(False), ".", {}, {}, "tcc")


def arguments(p: Program) -> dict[str, np.ndarray]:
    used = {name for node in p.nodes for name in node.input}
    return {v.name: v.array for v in p.inputs if v.name in used and not v.constant}


def difference(p: Program, results: Any) -> str:
    """From what the reference has, or ""."""
    for v, got in zip(p.made, results, strict=True):
        if got.dtype != v.array.dtype or got.shape != v.array.shape:
            return f"{v.name} is {got.dtype}{got.shape}, and of the reference {v.array.dtype}{v.array.shape}"
        wanted, given = v.array.astype(np.float64), got.astype(np.float64)
        limit = TOLERANCE.get(v.array.dtype.name, 0) * max(1, np.abs(wanted).max(initial=0))
        far = np.abs(given - wanted).max(initial=0)
        if not far <= limit:
            return f"{v.name} is off by {far:g}:\n{got}\nwhere the reference has\n{v.array}"
    return ""


def wrong(seed: int) -> str:
    """What is wrong with dlc's results of a random program, or "": nothing."""
    p = program(seed)
    if not p.nodes:
        return ""
    try:
        model = loaded(p)
    except FileError as error:
        return f"refused: {error}"
    try:
        made = model(**arguments(p))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return difference(p, made if isinstance(made, tuple) else (made,))


def wrong_again(seed: int, folder: str) -> str:
    """The same of what onnxruntime has of the program, saved as ONNX by dlc."""
    import onnxruntime

    p = program(seed)
    if not p.nodes:
        return ""
    try:
        model = loaded(p)
    except FileError:
        return ""  # what wrong() says
    try:
        model.save(f"{folder}/m.onnx")
    except FileError as error:
        lines = str(error).splitlines()[1:]
        return "" if lines and all(": ONNX has no " in line for line in lines) else f"refused: {error}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(
            f"{folder}/m.onnx", options, providers=["CPUExecutionProvider"]
        )
        names = {value.name for value in session.get_inputs()}
        made = session.run(None, {name: a for name, a in arguments(p).items() if name in names})
    except Exception as error:
        return "" if "NOT_IMPLEMENTED" in str(error) else f"{type(error).__name__}: {error}"
    return difference(p, made)


def shown(seed: int) -> str:
    return onnx.printer.to_text(program(seed).model(True))


def main() -> None:
    warnings.simplefilter("ignore")
    *save, first, count = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(int(first), int(first) + int(count)):
            print(seed, file=sys.stderr, flush=True)  # the last one, where the process ends
            if why := wrong_again(seed, folder) if save else wrong(seed):
                print(f"seed {seed}: {why}\n{shown(seed)}", flush=True)


if __name__ == "__main__":
    main()
