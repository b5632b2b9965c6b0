"""The language of the compiler, on NumPy arrays.

>>> import numpy as np
>>> import dlc
>>> double = dlc.ir.parse('''
... dlc 1 graph
... fn double[N](x: f32[N]) -> (f32[N]) {
...   let y: f32[N] = add x, x
...   ret y
... }
... ''')
>>> double(np.ones(3, np.float32))
array([2., 2., 2.], dtype=float32)

Calls run the reference interpreter: slow, and the definition of what a program means.  bfloat16
arrays come and go as uint16, their bits.  Nothing here imports torch.
"""

from __future__ import annotations

import difflib
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlc._C import (
    InternalError,
    ParseError,
    export_c,
    ir_call,
    ir_parse,
    ir_passes,
    ir_run_pass,
    ir_schedule,
    ir_scheduled,
    prepared,
)

__all__ = ["Function", "InternalError", "Param", "ParseError", "parse"]

_NUMPY = {
    "bool": np.bool_,
    "u8": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
}


def _dtype(kind: str) -> str:
    """f32 of f32[N, 2]."""
    return kind.partition(" ")[0].partition("[")[0]


def _may_have(kind: str, shape: tuple[int, ...]) -> bool:
    """Is the shape one of f32[N, 2]? Sizes that are no numbers may be any."""
    dims = kind.partition("[")[2].partition("]")[0]
    sizes = dims.split(", ") if dims else []
    return len(sizes) == len(shape) and all(
        not size.isdecimal() or int(size) == n for size, n in zip(sizes, shape, strict=True)
    )


class Param(NamedTuple):
    """A parameter: its name and its type as written."""

    name: str
    type: str


class Function:
    """A verified program.  Immutable; safe to call from several threads at once."""

    __slots__ = ("name", "params", "results", "sizes", "stage", "text")

    text: str
    name: str
    stage: str
    params: tuple[Param, ...]
    results: tuple[str, ...]
    sizes: tuple[str, ...]

    def __init__(self, text: str, file: str = "text") -> None:
        info = ir_parse(text, file)
        for slot, value in zip(("text", "name", "stage", "params", "results", "sizes"), info, strict=True):
            object.__setattr__(self, slot, value)
        object.__setattr__(self, "params", tuple(Param(*param) for param in self.params))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Function does not change: cannot set {name!r}")

    def __call__(self, *arrays: Any, **sizes: int) -> Any:
        """Run on arrays of the parameters' dtypes and shapes: one array, or a tuple of several.

        Arrays are read where they are, with whatever strides they have; lists and numbers are converted.
        A result that goes into a parameter is written into that array.  Sizes that no shape tells are
        given by name.
        """
        sizes = self._sizes(sizes)
        types = [param.type for param in self.params]
        converted = tuple(
            a if isinstance(a, np.ndarray) else np.asarray(a, _NUMPY[t.partition("[")[0]])
            for a, t in zip(arrays, types, strict=False)
        )
        results = ir_call(self.text, converted + arrays[len(types) :], sizes)
        return results[0] if len(results) == 1 else results

    def _sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        if unknown := set(sizes) - set(self.sizes):
            raise ValueError(f"{self.name} has no size {min(unknown)!r}; it has {', '.join(self.sizes)}")
        for name, n in sizes.items():
            if not hasattr(n, "__index__"):
                raise TypeError(f"{name} = {n!r} is no size: one is an int")
            if not -(2**63) <= n < 2**63:
                raise ValueError(f"{name} = {n} is no size: one has at most 64 bits")
        return dict(sizes)

    def verify(self) -> None:
        """Check all rules of the language; raises InternalError with the rule that is broken."""
        ir_parse(self.text, "text")

    def run_pass(self, name: str) -> Function:
        """The program after a pass (`python -m dlc opt --list` names them), verified."""
        try:
            text = ir_run_pass(self.text, name)
        except ValueError as error:
            near = difflib.get_close_matches(name, [known for known, _ in ir_passes()], 1)
            if near and str(error).startswith("there is no pass"):
                raise ValueError(f"there is no pass {name!r}: did you mean {near[0]!r}?") from None
            raise
        return Function(text)

    def scheduled(self, text: str) -> Function:
        """The loops with the marks of the lines, split and reordered by them, verified: see dlc.schedule.

        Raises ValueError with the line that is wrong, and for a program of another stage than loops.
        """
        return Function(ir_scheduled(self.text, text))

    def schedule(self) -> str:
        """The lines that dlc chooses for its kernels, each with its loops in comments: see dlc.schedule.

        Raises ValueError for a program of the loops stage, whose marks are in its text.
        """
        return ir_schedule(self.text, "")

    def export_c(
        self,
        folder: str | os.PathLike[str],
        name: str = "m",
        *,
        sizes: dict[str, int] | None = None,
        threads: int = 16,
        weights: Iterable[str] | Mapping[str, Any] = (),
        target: str = "c",
        prepare: bool = True,
    ) -> list[Path]:
        """Write the program as plain C11 to a folder, and return the paths of the files.

        `name` begins the names of the files and of everything that a linker sees. `sizes` are those of the
        example that `<name>_check.c` runs, where they are to be others than small ones. A kernel is cut into
        at most `threads` pieces for threads of the caller; the workspace has room for that many. `weights`
        names parameters that are no arguments of each call: `<name>_bind` finds them in a safetensors file in
        memory. As a mapping it has the array of each, with the parameter's shape and dtype, or a pair of a
        name in the file and the array. Arrays of at most 100 kB together are part of the program then, which
        has no `<name>_bind`; larger ones are written to `<name>.safetensors`, and `<name>_bind` compares
        their SHA-256.

        What the program computes of weights with arrays alone, and the order in which products read them, is
        prepared for `target="c"`: these arrays are its weights then, and no call computes them. They are
        named after the weights that they are made of, as `w.panels`. With `prepare=False` the weights are
        those of the program, so that `<name>_bind` takes a file of others of the same names.

        `target="device"` is for a small device: `<name>_run(&io)` is all that there is to call, weights are
        constants, and values between kernels have one array, whose bytes the header says. All sizes are
        numbers, those of `sizes` wherever they stand in the program, and there are no threads. `target="hls"`
        is for tools that make a circuit of C: the same with inputs and outputs as arrays, kernels as
        functions of arrays, constant bounds and pragmas; there are no loops or branches of the program and no
        complex numbers.

        Raises ValueError for a name that C does not allow, for sizes that the program excludes, for weights
        that do not fit, and for a program of another stage than graph; CaptureError for a program that calls
        operators of torch, and for loops whose number of steps is the size of a result, with all of these.
        """
        sizes = self._sizes(sizes or {})
        names = set(weights)
        if unknown := names - {param.name for param in self.params}:
            raise ValueError(f"{self.name} has no parameter {min(unknown)!r} that could be a weight")
        if target not in ("c", "device", "hls"):
            raise ValueError(f"target is 'c', 'device' or 'hls', not {target!r}")
        if not 1 <= threads <= 256:
            raise ValueError(f"threads is from 1 to 256, not {threads}")
        if isinstance(weights, Mapping):
            named = self._named(weights)
            if prepare and target == "c" and named:
                function, made = self._prepared(named)
                return function.export_c(
                    folder, name, sizes=sizes, threads=threads, weights=made, prepare=False
                )
            arrays = self._as_stored(named)
        else:
            arrays = {}
        given = {param: (json.dumps(stored)[1:-1], array) for param, (stored, _, array) in arrays.items()}
        pieces = threads if target == "c" else 1
        files = export_c(self.text, name, sizes, pieces, given if arrays else names, target)
        paths = [Path(folder) / file for file in files]
        Path(folder).mkdir(parents=True, exist_ok=True)
        for path, data in zip(paths, files.values(), strict=True):
            if data is None:
                from .files.tensors import write

                write(
                    path, {stored: (dtype, array) for stored, dtype, array in arrays.values()}, lambda _: {}
                )
            else:
                path.write_bytes(data)
        return paths

    def _named(self, weights: Mapping[str, Any]) -> dict[str, tuple[str, np.ndarray]]:
        """By parameter that is a weight: its name in a file and its array, of the parameter's dtype."""
        found = {}
        for param, kind in self.params:
            if param not in weights:
                continue
            name, array = weights[param] if isinstance(weights[param], tuple) else (param, weights[param])
            array = np.asarray(array)
            if array.dtype != _NUMPY[_dtype(kind)]:
                raise ValueError(
                    f"the weight {param} is an array of {array.dtype}, and the program takes {kind}"
                )
            if not _may_have(kind, array.shape):
                raise ValueError(
                    f"the weight {param} is an array of shape {list(array.shape)}, "
                    f"and the program takes {kind}"
                )
            found[param] = (name, array)
        return found

    def _prepared(
        self, weights: Mapping[str, tuple[str, np.ndarray]]
    ) -> tuple[Function, dict[str, tuple[str, np.ndarray]]]:
        """The program that reads what depends on weights alone, and its weights as `_named` gives them.

        What is made of weights is named after them: `w.panels`, `a+b.prepared`, `w.panels1`.
        """
        dense = {
            param: np.ascontiguousarray(array).reshape(array.shape) for param, (_, array) in weights.items()
        }
        text, arrays = prepared(self.text, dense)
        found, taken = {}, {weights[param][0] for param in arrays if param in weights}
        for param, (array, origins) in arrays.items():
            name = weights[param][0] if param in weights else ""
            if not name:
                made = "+".join(dict.fromkeys(weights[origin][0] for origin in origins))
                stem = f"{made}.{param.rstrip('0123456789')}".lstrip(".")
                tries = (f"{stem}{number or ''}" for number in itertools.count())
                name = next(one for one in tries if one not in taken)
                taken.add(name)
            found[param] = (name, array)
        return Function(text), found

    def _as_stored(
        self, weights: Mapping[str, tuple[str, np.ndarray]]
    ) -> dict[str, tuple[str, str, np.ndarray]]:
        """By parameter: the weight's name in a file, its dtype there, and the array as it is there."""
        from .files.tensors import stored

        kinds = dict(self.params)
        return {
            param: (name, *stored(array, _dtype(kinds[param]))) for param, (name, array) in weights.items()
        }

    def print(self) -> None:
        """Print the text."""
        print(self.text, end="")

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        params = ", ".join(f"{name}: {kind}" for name, kind in self.params)
        return f"<dlc.ir.Function {self.name}({params}) -> ({', '.join(self.results)}), {self.stage}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type[Function], tuple[str]]:
        return Function, (self.text,)

    def _repr_html_(self) -> str:
        import html  # here: with its table of entities it takes a tenth of the time of dlc.load

        return f"<pre>{html.escape(self.text)}</pre>"


def parse(text: str, file: str = "text") -> Function:
    """Read a program; `file` is its name in messages.

    Raises ParseError with line, column and a caret where the text is no program, InternalError where it
    breaks a rule of the language.
    """
    if not isinstance(text, str):
        raise TypeError(
            f"dlc.ir.parse takes the text of a program, not a value of type {type(text).__name__}"
        )
    if text.endswith(".dlc") and "\n" not in text:
        raise ValueError(f"dlc.ir.parse takes the text of a program, not a file: Path({text!r}).read_text()")
    return Function(text, file)
