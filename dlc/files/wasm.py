"""m.export_wasm: a loaded model as a folder for browsers, by the C of export_c."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._C import export_c
from .tensors import stored, write

if TYPE_CHECKING:
    from ..ir import Function

#: What the bits of a program need, and what keeps it small; DLC_HAS_FMA: the processor has no such operation.
FLAGS = [
    "-std=c11", "-O3", "-DDLC_HAS_FMA=0", "-ffp-contract=off", "-fwrapv", "-fno-math-errno",
    "-fno-trapping-math", "-ffreestanding", "-nostdlib", "-Wno-unused-command-line-argument",
]  # fmt: skip
_STACK = 65536
#: A call for an element costs more here than in machine code: a GPT takes 1.7 times as long without it.
_INLINE = ["-mllvm", "-inline-threshold=300"]
_FIRST = "-Wl,--stack-first"  # below all else, so that it ends in a fault; zig has it there
_VERSIONS = ["", *(f"-{version}" for version in range(24, 13, -1))]
_PARTS = ("c64", "c128")  # a file has no such type


def compiler() -> list[str]:
    """The command that compiles and links C for WebAssembly with vectors of 128 bits.

    Raises RuntimeError where there is none.
    """
    if importlib.util.find_spec("ziglang"):
        target = ["-target", "wasm32-freestanding", "-mcpu=generic+simd128+bulk_memory"]
        return [sys.executable, "-m", "ziglang", "cc", *target, "-fno-sanitize=undefined"]
    for version in _VERSIONS:
        clang, linker = shutil.which(f"clang{version}"), shutil.which(f"wasm-ld{version}")
        if clang and linker:
            return [clang, "--target=wasm32", "-msimd128", "-mbulk-memory", f"-fuse-ld={linker}", _FIRST]
    raise RuntimeError(
        "there is no compiler for WebAssembly here: pip install ziglang, or install clang with lld"
    )


def build(folder: Path, name: str, to: Path) -> None:
    """Compiles <name>.c of the folder. Raises RuntimeError with what the compiler says."""
    functions = [f"{name}_{function}" for function in ("run", "workspace", "message", "shapes")]
    if f"{name}_bind(" in (folder / f"{name}.h").read_text():
        functions.append(f"{name}_bind")
    link = [f"--export={function}" for function in (*functions, "__heap_base")]
    link += ["--no-entry", "--strip-all", "-z", f"stack-size={_STACK}"]
    command = [*compiler(), *FLAGS, *_INLINE, "-o", str(to), f"{name}.c", f"-Wl,{','.join(link)}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]} does not compile it for WebAssembly: {done.stderr.strip()[:2000]}")


def sources(
    function: Function, name: str, weights: set[str], sizes: Mapping[str, int] | None = None
) -> dict[str, bytes]:
    """The files of a program besides the compiled one: its C, its module, its page."""
    return export_c(function.text, name, function._sizes(sizes or {}), 1, weights, "wasm")


def export(
    function: Function,
    folder: str | os.PathLike[str],
    name: str,
    given: Mapping[str, np.ndarray],
    fixed: set[str],
    example: tuple[Mapping[str, int], list[np.ndarray], list[Any]] | None = None,
    numbers: Mapping[str, int] | None = None,
) -> list[Path]:
    """Writes the folder.

    given: arrays by parameter, of which those named in fixed are weights. example: sizes, the other
    parameters' arrays in their order, and results. numbers: sizes that are numbers in the program.
    """
    numbers = dict(numbers or {})
    types = {param.name: param.type.partition("[")[0] for param in function.params}
    bound = {param for param in fixed if types[param] not in _PARTS}
    texts = sources(function, name, bound, numbers)
    table = _table(texts[f"{name}.mjs"].decode())
    inputs = [param.name for param in function.params if param.name not in bound]
    called = dict(zip(inputs, (row[0] for row in table["inputs"]), strict=True))
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dlc-wasm-") as temporary:
        for file in (f"{name}.c", f"{name}.h"):
            (Path(temporary) / file).write_bytes(texts.pop(file))
        build(Path(temporary), name, Path(temporary) / f"{name}.wasm")
        texts[f"{name}.wasm"] = (Path(temporary) / f"{name}.wasm").read_bytes()
    for file, data in texts.items():
        (out / file).write_bytes(data)
    arrays = {called.get(param, param): stored(array, types[param]) for param, array in given.items()}
    write(out / f"{name}.safetensors", arrays, lambda entries: {})
    paths = [out / file for file in (*texts, f"{name}.safetensors")]
    if example is not None:
        sizes, values, results = example
        free = [param.name for param in function.params if param.name not in fixed]
        arrays = {
            f"input.{called[param]}": stored(np.asarray(value), types[param])
            for param, value in zip(free, values, strict=True)
        }
        for param in fixed - bound:
            arrays[f"input.{called[param]}"] = stored(given[param], types[param])
        for row in table["outputs"]:
            arrays[f"output.{row[0]}"] = stored(np.asarray(results[row[5]]), row[1])
        left = [size for size in function.sizes if size not in numbers]
        known = dict(zip(left, table["sizes"], strict=False))
        said = json.dumps({known[size]: int(n) for size, n in sizes.items() if size in known})
        paths.append(out / f"{name}_example.safetensors")
        write(paths[-1], arrays, lambda entries: {"sizes": said})
    return sorted(paths)


def _table(module: str) -> dict[str, Any]:
    """What the module says of the program's sizes and arrays."""
    found = re.search(r"^const program = (\{.*?^\});", module, re.MULTILINE | re.DOTALL)
    assert found
    return json.loads(found.group(1))
