"""dlc.jit: a function as an operator, with a call that runs no Python. See docs/jit.md."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from . import _C, hidden, pickled, trace
from .arrays import Array, Arrays, Generator, is_numpy
from .captures import Captures, copy_of
from .often import Often
from .options import Options, parse_saved
from .torch_init import PLAIN_KEYS, keys_of, ordinary
from .variables import PLAIN, Variable, followed, is_definition, is_plain, variables

# Tensors inside of vmap, grad, functionalize and the like.
_TRANSFORMS = keys_of("FuncTorchBatched", "FuncTorchGradWrapper", "Functionalize", "Python")

with ordinary():
    _C.jit_init(PLAIN_KEYS, torch.empty(0, device="cpu"), _TRANSFORMS)


def _describe(variable: Variable, name: str) -> str:
    kind = "a tensor" if isinstance(variable.value, torch.Tensor) else f"a {type(variable.value).__name__}"
    return f"{name}() reads {variable.name!r}, {kind}, which is not one of its arguments"


def _elsewhere(variable: Variable) -> tuple[str, str] | None:
    """The module of an installed package that has the variable, and the package."""
    names = variable.holder if isinstance(variable.holder, dict) else {}
    module, file = names.get("__name__"), str(names.get("__file__"))
    if not isinstance(module, str) or not {"site-packages", "dist-packages"} & {*Path(file).parts}:
        return None
    return module, module.partition(".")[0]


def _check_variables(jit: Any, function: types.FunctionType, owner: Any, constants: bool) -> None:
    """Refuses what may change unseen; has the rest of what may change compared at each call."""
    for variable in variables(function, owner=owner):
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
            if found := _elsewhere(variable):
                raise TypeError(
                    f"{function.__name__}() calls {found[1]}, which dlc.jit does not compile ({found[0]} "
                    f"reads {variable.name!r}, a {type(value).__name__}): call it outside and pass what it "
                    "gives as an argument, or write it with functions of NumPy or torch"
                )
            raise TypeError(
                f"{_describe(variable, function.__name__)}: pass it as an argument, or use "
                "dlc.jit(fn, constants=True) to take the value that it has at the first call"
            )


def _other(value: Any) -> str:
    """What is no function, and what to write instead."""
    if isinstance(value, type):
        return f"the class {value.__name__}: decorate its methods"
    name = getattr(value, "__name__", None)
    if isinstance(value, _C.Jit):
        return f"{name}, which dlc.jit has made already: call it as it is"
    if callable(value) and name:
        return f"{name}, which is compiled code: write a function that calls it, such as lambda x: {name}(x)"
    kind = type(value).__name__
    if isinstance(value, functools.partial):
        name = getattr(value.func, "__name__", "f")
        return f"an object of type partial: write a function that calls {name} with what is fixed"
    if callable(value) and not isinstance(type(value).__call__, types.FunctionType):
        return f"an object of type {kind}, whose __call__ is compiled code: write a function that calls it"
    if callable(value):
        return f"an object of type {kind}: dlc.jit(obj.__call__) compiles its method"
    return f"a value of type {kind}: write dlc.jit(f)(x), not dlc.jit(f(x))"


def _parameters(fn: Callable[..., Any]) -> tuple[tuple[str, ...], int, dict[str, Any]]:
    """Names, how many of them may be given by position, and defaults."""
    if not isinstance(fn, types.FunctionType):
        raise TypeError(f"dlc.jit takes a function written in Python or a module, not {_other(fn)}")
    if getattr(fn, "_torchdynamo_wrapper_id", None) == id(fn):
        raise TypeError(
            f"{fn.__name__} is what torch.compile returned, which is compiled already: "
            "dlc.jit takes the function itself"
        )
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


class _Compiler:
    """Makes the variants of one function."""

    def __init__(self, fn: types.FunctionType, owner: Any, constants: bool, options: Options) -> None:
        self.fn, self.owner = fn, owner
        self.names, self.positional, self.defaults = _parameters(fn)
        if owner is not None:
            self.names, self.positional = self.names[1:], self.positional - 1
        self.call = self.by_position(fn)
        self.constants = constants
        self.options = options
        self.checked = False
        self.jit = self.new_jit(functools.partial(_add, self))
        self.arrays = Arrays(self)
        self.often = Often(fn.__name__, self.names)
        self.captures = Captures(fn.__name__, fn, self.names, options, constants)

    def new_jit(self, compile: Callable[..., None]) -> Any:
        """A function of the same signature; compile(generation, *args) adds its variants."""
        return _C.Jit(
            self.fn,
            self.call,
            self.names,
            self.positional,
            self.defaults,
            compile,
            PLAIN,
            (FunctionalTensor, FakeTensor, Array, Generator),
            self.constants,
        )

    def by_position(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """fn, of all its parameters by position; the object that it is a method of is none of them."""
        bound = fn if self.owner is None else types.MethodType(fn, self.owner)
        return _by_position(bound, self.names, self.positional)

    def add(self, generation: int, *args: Any) -> None:
        with trace.capturing():
            if self.jit.generation != generation:
                return  # another thread has compiled meanwhile
            if not self.checked:
                hidden.check(followed(self.fn, self.owner), self.fn.__name__)
                _check_variables(self.jit, self.fn, self.owner, self.constants)
                self.checked = True
            with hidden.unmoved(self.fn.__name__, self.held(args)):
                spec = self.variant(args)
            self.jit.add(args, spec)
            if "through" not in spec:  # what it goes through counts for itself
                self.often.added(args, spec.get("inputs", []))

    def held(self, args: tuple[Any, ...]) -> list[Any]:
        """What the function may reach besides plain values."""
        return [*args, *(variable.value for variable in variables(self.fn))] if self.constants else []

    def variant(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """What Jit.add takes, for calls with such arguments."""
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
            return {"through": self.differentiable()}
        if any(map(is_numpy, args)):
            return self.arrays.variant(args)
        try:
            spec = self.compiled(self.call, args, lambda: self.call(*map(copy_of, args)))
        except trace.CaptureError as error:
            if tensors or not isinstance(error.__cause__, trace.OfNumPy):
                raise
            return self.arrays.variant(args)  # a function of numbers that makes arrays
        # A call of an operator would meet autocast again, whose work the graph has in it already.
        if spec["callable"].calls and torch.is_autocast_enabled("cpu"):
            return {"through": self.differentiable()}
        return spec

    def differentiable(self) -> Callable[..., Any]:
        import dlc.backend  # noqa: F401  (registers it where there is no entry point)

        compiled = torch.compile(self.fn, backend="dlc", options=dataclasses.asdict(self.options))
        return self.by_position(compiled)

    def compiled(
        self, call: Callable[..., Any], args: tuple[Any, ...], eager: Callable[[], Any]
    ) -> dict[str, Any]:
        """See Captures.variant."""
        return self.captures.variant(call, args, eager)


@torch._disable_dynamo
def _add(compiler: _Compiler, generation: int, *args: Any) -> None:
    compiler.add(generation, *args)


def jit(fn: Any, constants: bool, options: dict[str, Any]) -> Any:
    if not isinstance(constants, bool):
        raise ValueError(f"dlc.jit takes constants=True or False, not {constants!r}")
    if isinstance(fn, torch.nn.Module):
        from .module import jit_module

        return jit_module(fn, constants, parse_saved(options, "dlc.jit"))
    owner = None
    if isinstance(fn, types.MethodType):
        if constants:
            return types.MethodType(jit(fn.__func__, constants, options), fn.__self__)
        fn, owner = fn.__func__, fn.__self__
    compiler = _Compiler(fn, owner, constants, parse_saved(options, "dlc.jit"))
    made = functools.update_wrapper(compiler.jit, fn)
    if owner is None:
        pickled.made(made, constants, options)
    return made
