"""A text of the language as an operator: compiled, where dlc.ir.parse gives the interpreter.

What a cell of a notebook makes of a program (dlc/magics.py), and the report of any program's text.
"""

from __future__ import annotations

import dataclasses
import linecache
import re
from typing import Any

import torch
from torch import Tensor

from . import ir, torch_init  # noqa: F401  (the compiler wants to know of torch)
from .compiler import compile_with
from .notation import _DTYPES, _to_tensor
from .options import parse
from .report.model import Place
from .repro import Repro
from .run import _outputs

_TORCH = {name: dtype for dtype, name in _DTYPES.items()}


def _dims(kind: str) -> list[str]:
    """The sizes in a type, f32[N, 2*M] strides=[..]."""
    found = kind.partition("[")[2].partition("]")[0] if "[" in kind.split(" ")[0] else ""
    return [dim.strip() for dim in found.split(",") if dim.strip()]


@dataclasses.dataclass(frozen=True)
class Source:
    """The text that a program was made of, as its user wrote it: a cell."""

    text: str
    lines: dict[str, int]  # by let: the line that it comes from


def lines_of_lets(text: str) -> dict[str, int]:
    """By let, its line in a program's text."""
    found = (re.match(r"\s*let (\w+)\s*:", line) for line in text.splitlines())
    return {let[1]: k for k, let in enumerate(found, 1) if let}


def _placed(text: str, file: str, source: Source) -> tuple[str, dict[str, dict[str, Any]]]:
    """The text with a node for each let, and what a report is told of them: operator and line."""
    lines, nodes, own = text.splitlines(), {}, source.text.splitlines()
    linecache.cache[file] = (len(source.text), None, source.text.splitlines(keepends=True), file)
    for k, line in enumerate(lines):
        found = re.match(r"  let (\w+): .*? = (\w+)\b[^@{]*$", line)
        if found:
            lines[k] = f"{line}  @{found[1]}"
            at = source.lines.get(found[1], 1)
            place = Place(file, at, own[at - 1].strip())
            nodes[found[1]] = {"word": found[2], "base": found[2], "places": place, "again": True}
    return "\n".join(lines) + "\n", nodes


class Program:
    """A verified program, compiled when it is first called.

    Called with tensors, arrays or numbers, one for each parameter; sizes that no parameter shows are given
    by name. It returns tensors, or arrays where all arguments are such. It has no gradient.
    """

    def __init__(self, text: str, file: str = "text", source: Source | None = None) -> None:
        """`source`: what a report shows instead of the program's own text."""
        self.function = ir.parse(text, file)
        if self.function.stage != "graph":
            raise ValueError(f"the program is of the stage {self.function.stage}: one to compile is a graph")
        self.text = self.function.text
        params = self.function.params
        self._dims = [_dims(param.type) for param in params]
        self._dtypes = [_TORCH[param.type.partition("[")[0].split(" ")[0]] for param in params]
        shown = {dim for dims in self._dims for dim in dims}
        self._hidden = [size for size in self.function.sizes if size not in shown]
        self._source = source or Source(self.text, lines_of_lets(self.text))
        self._file = f"<cell {id(self)}>" if source else f"<{self.function.name}>"
        self._compiled: Any = None
        self.report: dict[str, Any] = {}

    def _compile(self) -> Any:
        if self._compiled is None:
            inputs = [("tensor", k) for k in range(len(self._dims))]
            inputs += [("size", self.function.sizes.index(size)) for size in self._hidden]
            outputs, _ = _outputs(Repro(self.text))
            text, nodes = _placed(self.text, self._file, self._source)
            parts = {"text": text, "inputs": inputs, "outputs": outputs, "calls": []}
            self.report = {"kind": "program", "nodes": nodes}
            self._compiled = compile_with(parse({}), parts, self._refused, report=self.report)
        return self._compiled

    def _refused(self, *args: Any) -> Any:
        """The compiled program does not take these arguments; says the first that is wrong."""
        known: dict[str, int] = {}
        for param, dims, arg in zip(self.function.params, self._dims, args, strict=False):
            for axis, (dim, n) in enumerate(zip(dims, arg.shape, strict=True)):
                if str(known.setdefault(dim, n) if dim.isidentifier() else dim) != str(n):
                    wants = f"{dim} = {known[dim]}" if dim.isidentifier() else dim
                    raise ValueError(
                        f"axis {axis} of {param.name!r} has size {n}, but the program declares {wants}"
                    )
        raise ValueError("a size is outside of its declared range, or the strides are not the declared ones")

    def _tensors(self, args: tuple[Any, ...], sizes: dict[str, int]) -> list[Any]:
        names = [param.name for param in self.function.params]
        if len(args) != len(names) or sorted(sizes) != sorted(self._hidden):
            words = [*names, *(f"{size}=.." for size in self._hidden)]
            raise TypeError(f"{self.function.name} takes ({', '.join(words)})")
        made: list[Any] = []
        for param, dims, dtype, arg in zip(self.function.params, self._dims, self._dtypes, args, strict=True):
            tensor = _to_tensor(param.name, arg)
            if not isinstance(arg, Tensor) and tensor.dim() == 0:
                tensor = tensor.to(dtype)
            if tensor.dtype != dtype or tensor.dim() != len(dims):
                raise TypeError(
                    f"argument {param.name!r} is {_DTYPES.get(tensor.dtype, tensor.dtype)} of "
                    f"{tensor.dim()} axes: the program takes {param.type}"
                )
            made.append(tensor)
        return made + [sizes[size] for size in self._hidden]

    def __call__(self, *args: Any, **sizes: int) -> Any:
        given = self._tensors(args, sizes)
        with torch.no_grad():
            made = self._compile()(*given)
        results = list(made) if isinstance(made, (list, tuple)) else [made]
        if not any(isinstance(arg, Tensor) for arg in args):
            results = [r.numpy() if isinstance(r, Tensor) else r for r in results]
        return results[0] if len(results) == 1 else tuple(results)

    def explain(self, *args: Any, **sizes: int) -> Any:
        """The report of the program; with arguments it is called and measured."""
        from .report.gather import Seen, build, measure

        compiled = self._compile()
        report = dict(self.report, callable=compiled)
        if args or sizes:
            given = self._tensors(args, sizes)
            report["arguments"] = given
            compiled.profile(begin=True)
            with torch.no_grad():
                compiled(*given)
            measure([report])
        return build([report], Seen())

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return repr(self.function).replace("dlc.ir.Function", "dlc program")
