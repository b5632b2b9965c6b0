"""The captures of dlc.jit: from a function and its arguments to what Jit.add takes."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from . import _C, trace
from .arrays.unsigned import as_signed
from .compiler import compile_with
from .frozen import watch_optimizers
from .layouts import laid_as_eager
from .options import Options


def copy_of(value: Any) -> Any:
    """The argument for a run whose writes are not to be seen."""
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _like(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of its form that holds no memory."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


class Captures(NamedTuple):
    """What is captured for one function, or for the forward of one module."""

    name: str  # for messages
    function: Callable[..., Any]  # whose lines messages name
    names: tuple[str, ...]  # of the arguments
    options: Options
    constants: bool  # does it read what is not looked at?
    check: Callable[[GraphModule], None] | None = None  # refuses a graph

    def variant(
        self,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        eager: Callable[[], Any],
        fixed: int | None = None,
    ) -> dict[str, Any]:
        """The most general capture of call that works; raises the reason of the last if none does.

        eager: runs the function itself, which raises its own error, if it has one; fixed: see trace.capture.
        """
        reason: Exception = _C.InternalError("nothing was tried")
        for static, floats in ((False, True), (False, False), (True, False)):
            try:
                captured = trace.capture(call, args, self.names, static=static, floats=floats, fixed=fixed)
                return self._compiled(captured, fixed) | {"writes": self._writes(call, args, captured.writes)}
            except trace.Never as error:
                raise _C.CaptureError(f"{self.name}() cannot be compiled: {error}") from error
            except Exception as error:
                reason = error
        if not isinstance(reason, _C.CaptureError) and not _of_torch(reason):
            if not self.constants and re.search("(Functional|Fake)Tensor", str(reason)):
                eager()  # which names the tensor as the function has it
            raise reason
        if not isinstance(reason, _C.CaptureError) and not self.constants:
            eager()
        raise _C.CaptureError(f"{self.name}() cannot be compiled: {_said(reason, self.function)}") from reason

    def _compiled(self, captured: trace.Captured, fixed: int | None) -> dict[str, Any]:
        graph = captured.graph
        as_signed(graph)
        frozen: list[int] = []
        if self.options.freeze and fixed is not None:  # behind the arguments are the module's own tensors
            watch_optimizers()
            frozen = [k for k, argument in enumerate(captured.inputs) if argument >= fixed]
        if self.check is not None:
            self.check(graph)
        callable_ = laid_as_eager(graph, lambda: compile_with(self.options, graph, None, frozen=frozen))
        names = ("inputs", "symbols", "guards", "leaves", "shape")
        return {"callable": callable_} | {name: getattr(captured, name) for name in names}

    def _writes(
        self, call: Callable[..., Any], args: tuple[Any, ...], written: list[int]
    ) -> list[tuple[int, Callable[[], str]]]:
        """Each argument that is written to, with what says so in a message, when it is wanted."""
        like = tuple(_like(a) if isinstance(a, torch.Tensor) else a for a in args) if written else ()
        return [(k, lambda k=k: self.writes_to(k, trace.line_of_write(call, like, k))) for k in written]

    def writes_to(self, argument: int, line: str = "") -> str:
        """That it writes to the argument, in words for a message."""
        return f"{self.name}() writes to its argument {self.names[argument]!r}{f' ({line})' if line else ''}"


def _of_torch(error: Exception) -> bool:
    """May the error speak of fake tensors and symbols, or of what tracing does not do?"""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    module = frames[-1].f_globals.get("__name__", "") if frames else ""
    of_torch = {name.partition(".")[0] == "torch" for name in (module, type(error).__module__)}
    return isinstance(error, (RuntimeError, IndexError)) or True in of_torch


#: What torch says of tracing, and what it means for the function.
_MEANT = (
    (r"\.numpy\(\) is not supported", "it makes a NumPy array of a tensor: use torch's functions on the "
     "tensor, or give dlc.jit a function of arrays"),
    (r"(data pointer|storage) of .*(Fake|Functional)?Tensor|access data pointer", "it reads the memory of a "
     "tensor (data_ptr, from_numpy, another library): leave that outside of the function"),
)  # fmt: skip


def _place(error: Exception, function: Callable[..., Any]) -> str:
    """The last line of the function's file that the error came through."""
    file = function.__code__.co_filename
    lines = [n for frame, n in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return f" ({file}:{lines[-1]})" if lines else ""


def _said(error: Exception, function: Callable[..., Any]) -> str:
    """What is wrong and where, in words of the function; torch speaks of symbols where it decides by data."""
    where = _place(error, function)
    if isinstance(error, GuardOnDataDependentSymNode):
        return (
            f"it decides by the values of a tensor{where}: torch.where chooses by them, "
            'torch.compile(fn, backend="dlc") breaks its graph there'
        )
    text = str(error)
    for pattern, meaning in _MEANT:
        if re.search(pattern, text):
            what, _, fix = meaning.partition(": ")
            return f"{what}{where}: {fix}"
    return text if where.strip(" ()") in text else f"{text}{where}"
