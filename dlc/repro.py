"""A bug as one file: a program of the language under lines that say how it was run. See docs/bugs.md.

The lines are comments of the language, `# name: JSON`, so that every tool that reads a program reads them.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import ir
from ._C import ir_sample

FIRST = "# dlc repro 1"
# Options that change what is computed or how: others belong to the machine.
KEPT = ("tier", "fuel", "products", "memory_budget", "freeze")
_LINE = re.compile(r"# (\w+): (.*)")
_PLACE = re.compile(r'  @(?:\w+|"(?:[^"\\]|\\.)*")(?: "(?:[^"\\]|\\.)*")?$', re.MULTILINE)


@dataclasses.dataclass
class Repro:
    """A program and how it is run: seed and sizes say its inputs, but for those whose values are given."""

    text: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    seed: int = 0
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    frozen: list[str] = dataclasses.field(default_factory=list)  # names of parameters
    calls: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    constants: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    values: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    said: str = ""  # the error with which it was found

    def __str__(self) -> str:
        fields = dataclasses.asdict(self)
        text = fields.pop("text")
        lines = [
            f"# {name}: {json.dumps(value)}" for name, value in fields.items() if value or name == "seed"
        ]
        return "\n".join([FIRST, *lines, text])

    def with_text(self, text: str) -> Repro:
        return dataclasses.replace(self, text=text)

    def arrays(self) -> tuple[list[np.ndarray], dict[str, int]]:
        """The inputs, by parameter, and every size."""
        arrays, sizes = ir_sample(self.text, self.seed, self.known_sizes())
        names = [param.name for param in ir.parse(self.text).params]
        for k, name in enumerate(names):
            row = self.values.get(name)
            if row is not None and (row["dtype"], row["sizes"]) == (str(arrays[k].dtype), [*arrays[k].shape]):
                arrays[k] = _array(row)
        return arrays, dict(sizes)

    def known_sizes(self) -> dict[str, int]:
        """Of the sizes that are said, those that the program still has."""
        return {name: self.sizes[name] for name in ir.parse(self.text).sizes if name in self.sizes}


def _row(array: np.ndarray) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    strides = [s // array.itemsize for s in array.strides]
    return {"dtype": str(array.dtype), "sizes": [*array.shape], "strides": strides, "data": data}


def _array(row: dict[str, Any]) -> np.ndarray:
    dtype, sizes = np.dtype(row["dtype"]), row["sizes"]
    dense = np.frombuffer(base64.b64decode(row["data"]), dtype).reshape(sizes)
    extent = 1 + sum((n - 1) * stride for n, stride in zip(sizes, row["strides"], strict=True) if n > 1)
    strides = [s * dtype.itemsize for s in row["strides"]]
    array = np.lib.stride_tricks.as_strided(np.zeros(extent, dtype), sizes, strides)
    np.copyto(array, dense)
    return array


def read(text: str) -> Repro:
    """A file's content, or a program without such lines. Raises ValueError for lines that are none."""
    if not text.startswith(FIRST):
        return Repro(text)
    lines = text.split("\n")
    found: dict[str, Any] = {}
    at = 1
    while at < len(lines) and lines[at].startswith("#"):
        line = _LINE.fullmatch(lines[at])
        if line is not None:
            name, value = line.groups()
            if name not in Repro.__dataclass_fields__ or name == "text":
                raise ValueError(f"line {at + 1}: there is no {name!r}")
            try:
                found[name] = json.loads(value)
            except ValueError as error:
                raise ValueError(f"line {at + 1}: {error}") from None
        at += 1
    return Repro("\n".join(lines[at:]), **found)


def read_all(text: str) -> list[Repro]:
    return [read(part.lstrip("\n")) for part in text.split("\n---\n") if part.strip()]


# -- from a compile ------------------------------------------------------------------------------------


def _as_numpy(tensor: Any) -> np.ndarray:
    import torch

    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    return tensor.detach().numpy()


def of_parts(
    program: str, parts: dict[str, Any], options: Any, frozen: list[int], values: bool, seed: int = 0
) -> Repro:
    """Of a program and the lists of _C.parts. frozen: positions of inputs; values: constants as they are."""
    from .artifact import describe_calls

    names = [param.name for param in ir.parse(program).params]
    tensors = {k: names[index] for k, (kind, index) in enumerate(parts["inputs"]) if kind == "tensor"}
    calls, constants = describe_calls(parts["calls"])
    data, at = bytes(constants.bytes), 0
    for row in constants.rows:
        if values:
            row["data"] = base64.b64encode(data[at : at + row["bytes"]]).decode()
        at += row["bytes"]
    defaults = {field.name: field.default for field in dataclasses.fields(options)}
    return Repro(
        _PLACE.sub("", program),
        {name: getattr(options, name) for name in KEPT if getattr(options, name) != defaults[name]},
        seed,
        frozen=[tensors[k] for k in frozen if k in tensors],
        calls=[call | {"source": None} for call in calls],
        constants=constants.rows,
    )


class _Taken:
    """A compiled graph that notes what it is first called with."""

    def __init__(self, compiled: Any, repro: Repro, parts: dict[str, Any], values: bool) -> None:
        self.compiled, self.repro, self.parts, self.values = compiled, repro, parts, values
        self.called = False
        self._boxed_call = True

    def __call__(self, *args: Any) -> Any:
        if not self.called:
            self.called = True
            self._note(args[0] if len(args) == 1 and isinstance(args[0], list) else args)
        return self.compiled(*args)

    def memory(self, sizes: dict[str, int]) -> Any:
        return self.compiled.memory(sizes)

    def _note(self, args: Any) -> None:
        program = ir.parse(self.repro.text)
        for (kind, index), value in zip(self.parts["inputs"], args, strict=True):
            if kind == "size":
                self.repro.sizes[program.sizes[index]] = int(value)
            elif kind == "tensor":
                param = program.params[index]
                dims = param.type.partition("[")[2].partition("]")[0].split(", ")
                known = zip(dims, value.shape, strict=False)
                self.repro.sizes.update({d: int(n) for d, n in known if d in program.sizes})
                if self.values:
                    self.repro.values[param.name] = _row(_as_numpy(value))


def save(
    fn: Callable[..., Any], args: Any, path: Any, inputs: str, seed: int, options: dict[str, Any]
) -> str:
    import torch

    from . import compiler
    from ._C import InternalError, parts
    from .report.gather import _check, _uncompiled

    if inputs not in ("seed", "values"):
        raise ValueError(f'inputs is "seed" or "values", not {inputs!r}')
    _check(fn)
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"args is a tuple of the arguments, not a {type(args).__name__}: (x,) is one of x")
    values = inputs == "values"
    taken: list[_Taken] = []
    refused: list[str] = []

    def take(compiled: Any, parsed: Any, report: dict[str, Any], frozen: list[int]) -> Any:
        lists = parts(compiled)
        try:
            repro = of_parts(report["graph"], lists, parsed, frozen, values, seed)
        except ValueError as error:  # an ArtifactError: an operator that has no form in a file
            refused.append(str(error))
            return compiled
        taken.append(_Taken(compiled, repro, lists, values))
        return taken[-1]

    torch._dynamo.reset()
    before, compiler.take = compiler.take, take
    failed = None
    try:
        torch.compile(_uncompiled(fn), backend="dlc", options=options)(*args)
    except Exception as error:
        failed = error
    finally:
        compiler.take = before
        torch._dynamo.reset()
    repros = [graph.repro for graph in taken]
    inner = getattr(failed, "inner_exception", failed)
    if isinstance(inner, InternalError) and hasattr(inner, "repro"):
        repros = [inner.repro]
    if not repros and refused and "capture" not in options:
        return save(fn, args, path, inputs, seed, options | {"capture": "aot"})  # by operators with schemas
    if not repros:
        why = refused[0] if refused else "dlc compiled no graph"
        raise failed or RuntimeError(f"there is nothing to save: {why}")
    Path(path).write_text("\n---\n".join(map(str, repros)))
    return str(path)


def _public(said: str, program: str) -> str:
    """The first line of an error without the places and lines of source that it may quote."""
    line = said.partition("\n")[0]
    for place in re.findall(r'"((?:[^"\\]|\\.)*)"$', program, re.MULTILINE):
        line = line.replace(place, "..")
    line = re.sub(r"(?<![\w.])(~|\.{0,2})/[^\s:,;'\"()]+", "..", line)  # a path
    return re.sub(r"[\w.\-]*\.\w+:\d+(: .*)?", "..", line)  # a place, and the text of its line


def of_fault(error: Any, options: Any, frozen: list[int]) -> None:
    """Writes the program that an InternalError was about, and adds the path to what the error says."""
    if not hasattr(error, "program") or hasattr(error, "repro"):
        return
    try:
        error.repro = of_parts(error.program, error.parts, options, frozen, False)
        error.repro.said = _public(str(error), error.program)
        folder = os.environ.get("DLC_DUMP_DIR") or None
        file, path = tempfile.mkstemp(".dlc", "dlc-bug-", folder)
        with os.fdopen(file, "w") as out:
            out.write(str(error.repro))
    except Exception:  # the error itself is what matters
        return
    error.args = (f"{error}\nto repeat it: python -m dlc run {path}", *error.args[1:])
