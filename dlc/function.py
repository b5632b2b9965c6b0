"""dlc.jit: a function as an operator, with a call that runs no Python. See docs/jit.md."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.autograd import forward_ad
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from . import _C, trace
from .compiler import compile_with
from .layouts import laid_as_eager
from .options import Options, parse
from .torch_init import PLAIN_KEYS, keys_of, ordinary
from .variables import PLAIN, Variable, is_definition, is_plain, variables

# Tensors inside of vmap, grad, functionalize and the like.
_TRANSFORMS = keys_of("FuncTorchBatched", "FuncTorchGradWrapper", "Functionalize", "Python")

with ordinary():
    _C.jit_init(PLAIN_KEYS, torch.empty(0, device="cpu"), _TRANSFORMS, vars(forward_ad))


def _describe(variable: Variable, name: str) -> str:
    kind = "a tensor" if isinstance(variable.value, torch.Tensor) else f"a {type(variable.value).__name__}"
    return f"{name}() reads {variable.name!r}, {kind}, which is not one of its arguments"


def _check_variables(jit: Any, function: types.FunctionType, constants: bool) -> None:
    """Refuses what may change unseen; has the rest of what may change compared at each call."""
    for variable in variables(function):
        value = variable.value
        if isinstance(value, torch.Tensor) and value.requires_grad:
            raise TypeError(
                f"{_describe(variable, function.__name__)} and requires a gradient: pass it as an argument"
            )
        if constants:
            continue
        if is_plain(value) or isinstance(value, types.FunctionType):
            jit.watch(variable.name.rpartition(".")[2], variable.holder)
        elif not is_definition(value):
            raise TypeError(
                f"{_describe(variable, function.__name__)}: pass it as an argument, or use "
                "dlc.jit(fn, constants=True) to take the value that it has at the first call"
            )


def _parameters(fn: Callable[..., Any]) -> tuple[tuple[str, ...], int, dict[str, Any]]:
    """Names, how many of them may be given by position, and defaults."""
    if isinstance(fn, torch.nn.Module):
        raise TypeError('dlc.jit takes a function; for a module use torch.compile(module, backend="dlc")')
    if not isinstance(fn, types.FunctionType):
        raise TypeError(f"dlc.jit takes a function written in Python, not {fn!r}")
    parameters = inspect.signature(fn).parameters.values()
    for p in parameters:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeError(f"{fn.__name__}() takes any number of arguments ({p}): dlc.jit needs them named")
    by_position = sum(p.kind is not p.KEYWORD_ONLY for p in parameters)
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    return tuple(p.name for p in parameters), by_position, defaults


def _by_position(fn: Callable[..., Any], names: tuple[str, ...], positional: int) -> Callable[..., Any]:
    """fn with all its parameters given by position."""
    if positional == len(names):
        return fn

    def call(*args: Any) -> Any:
        return fn(*args[:positional], **dict(zip(names[positional:], args[positional:], strict=True)))

    return call


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(value) is numpy.ndarray


def _readable(array: Any) -> bool:
    """Can the C side read it where it lies?"""
    long = (s for n, s in zip(array.shape, array.strides, strict=True) if n > 1)
    whole = all(s >= 0 and s % array.itemsize == 0 for s in long)
    return whole and array.dtype.isnative and array.flags.aligned


def _to_tensor(value: Any) -> Any:
    """An array as a tensor over its memory, or of a copy where torch cannot share it."""
    if not _is_array(value):
        return value
    if not _readable(value) or not value.flags.writeable:
        value = value.astype(value.dtype.newbyteorder("="), order="C")
    return torch.from_numpy(value)


def _like(array: Any) -> torch.Tensor:
    """A tensor without memory of the array's dtype, sizes and strides."""
    dtype = torch.from_numpy(array.ravel()[:0].copy()).dtype
    strides = [s // array.itemsize if n > 1 else 1 for n, s in zip(array.shape, array.strides, strict=True)]
    return torch.empty_strided(array.shape, strides, dtype=dtype, device="meta")


def _to_array(value: Any) -> Any:
    return value.numpy() if isinstance(value, torch.Tensor) else value


def _copy(value: Any) -> Any:
    """The argument for a run whose writes are not to be seen."""
    value = _to_tensor(value)
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _of_torch(error: Exception) -> bool:
    """May the error speak of fake tensors and symbols, or of what tracing does not do?"""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    module = frames[-1].f_globals.get("__name__", "") if frames else ""
    of_torch = {name.partition(".")[0] == "torch" for name in (module, type(error).__module__)}
    return isinstance(error, (RuntimeError, IndexError)) or True in of_torch


def _said(error: Exception, fn: types.FunctionType) -> str:
    """What is wrong, in words of the function; torch speaks of symbols where it decides by data."""
    if not isinstance(error, GuardOnDataDependentSymNode):
        return str(error)
    code, frames = fn.__code__, traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == code.co_filename]
    where = f" ({code.co_filename}:{lines[-1]})" if lines else ""
    return (
        f"it decides by the values of a tensor{where}: torch.where chooses by them, "
        'torch.compile(fn, backend="dlc") breaks its graph there'
    )


class _Compiler:
    """Makes the variants of one function."""

    def __init__(self, fn: types.FunctionType, constants: bool, options: Options) -> None:
        self.fn = fn
        self.names, self.positional, self.defaults = _parameters(fn)
        self.call = _by_position(fn, self.names, self.positional)
        self.constants = constants
        self.options = options
        self.checked = False
        self.jit = _C.Jit(
            fn,
            self.call,
            self.names,
            self.positional,
            self.defaults,
            functools.partial(_add, self),
            PLAIN,
            (FunctionalTensor, FakeTensor),
            constants,
        )

    def add(self, generation: int, *args: Any) -> None:
        with trace.capturing():
            if self.jit.generation != generation:
                return  # another thread has compiled meanwhile
            if not self.checked:
                _check_variables(self.jit, self.fn, self.constants)
                self.checked = True
            self.jit.add(args, self.variant(args))

    def variant(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """What Jit.add takes, for calls with such arguments."""
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            return {"through": self.differentiable()}
        arrays = [a for a in args if _is_array(a)]
        if not all(map(_readable, arrays)):
            return {"through": self.with_arrays}
        spec = self.compiled(args)
        if not spec["callable"].calls:
            return spec
        # A call of an operator would meet autocast again, whose work the graph has in it already.
        without = self.differentiable() if torch.is_autocast_enabled("cpu") else None
        through = self.with_arrays if arrays else without
        return spec if through is None else {"through": through}

    def differentiable(self) -> Callable[..., Any]:
        import dlc.backend  # noqa: F401  (registers it where there is no entry point)

        compiled = torch.compile(self.fn, backend="dlc", options=dataclasses.asdict(self.options))
        return _by_position(compiled, self.names, self.positional)

    def with_arrays(self, *args: Any) -> Any:
        """A call with arrays by way of tensors: for graphs that call operators, and unusual arrays."""
        results = self.jit(*map(_to_tensor, args))
        return pytree.tree_map(_to_array, results)

    def compiled(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """The most general capture that works; raises the reason of the last if none does."""
        like = tuple(_like(a) if _is_array(a) else a for a in args)
        reason: Exception = _C.InternalError("nothing was tried")
        for static, floats in ((False, True), (False, False), (True, False)):
            try:
                captured = trace.capture(self.call, like, self.names, static=static, floats=floats)
                return self.from_graph(captured)
            except Exception as error:
                reason = error
        if not isinstance(reason, _C.CaptureError) and not _of_torch(reason):
            raise reason
        if not isinstance(reason, _C.CaptureError) and not self.constants:
            self.call(*map(_copy, args))  # raises eager's own error, if eager has one
        raise _C.CaptureError(
            f"{self.fn.__name__}() cannot be compiled: {_said(reason, self.fn)}"
        ) from reason

    def from_graph(self, captured: trace.Captured) -> dict[str, Any]:
        graph = captured.graph
        callable_ = laid_as_eager(graph, lambda: compile_with(self.options, graph, None))
        names = ("inputs", "symbols", "guards", "leaves", "shape")
        return {"callable": callable_} | {name: getattr(captured, name) for name in names}


@torch._disable_dynamo
def _add(compiler: _Compiler, generation: int, *args: Any) -> None:
    compiler.add(generation, *args)


def jit(fn: Any, constants: bool, options: dict[str, Any]) -> Any:
    if isinstance(fn, types.MethodType):
        return types.MethodType(jit(fn.__func__, constants, options), fn.__self__)
    compiler = _Compiler(fn, constants, parse(options))
    return functools.update_wrapper(compiler.jit, fn)
