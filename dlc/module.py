"""dlc.jit of a torch.nn.Module: captured once per kind of arguments, guarded in C. See docs/jit.md."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx import GraphModule

from . import _C, hidden, trace
from .arrays import is_numpy
from .captures import Captures, copy_of
from .module_tree import Walk, check_state, is_installed, state_of
from .options import Options
from .variables import PLAIN, followed


def _parameters(forward: Callable[..., Any]) -> tuple[tuple[str, ...], int, dict[str, Any]]:
    """Names of parameters but *args and **kwargs, how many may be given by position, and defaults."""
    named = [
        p
        for p in inspect.signature(forward).parameters.values()
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    by_position = sum(p.kind is not p.KEYWORD_ONLY for p in named)
    return (
        tuple(p.name for p in named),
        by_position,
        {p.name: p.default for p in named if p.default is not p.empty},
    )


def _as_given(
    model: Callable[..., Any], names: tuple[str, ...], positional: int, defaults: dict[str, Any]
) -> Callable[..., Any]:
    """model with all parameters by position, of which it is given those that are not their defaults.

    Decorators of forward tell what was given from what was not.
    """

    def call(*args: Any) -> Any:
        used = [n not in defaults or defaults[n] is not a for n, a in zip(names, args, strict=True)]
        first = min(used.index(False) if False in used else len(used), positional)
        rest = zip(names[first:], args[first:], used[first:], strict=True)
        return model(*args[:first], **{name: value for name, value, wanted in rest if wanted})

    return call


def _own_functions(model: nn.Module) -> list[types.FunctionType]:
    """What the forwards of the module and its children call by name, without code of installed packages."""
    forwards = ((getattr(type(module), "forward", None), module) for module in model.modules())
    return [
        function
        for forward, module in forwards
        if isinstance(forward, types.FunctionType) and not is_installed(forward.__globals__)
        for function in followed(forward, module)
    ]


def _check_constants(graph: GraphModule) -> None:
    """Refuses tensors that are neither the module's nor made by its code, which copies these first."""
    for node in graph.graph.nodes:
        if node.op == "get_attr" and isinstance(getattr(graph, node.target, None), Tensor):
            made = all("lift_fresh" in str(user.target) for user in node.users)
            if not made:
                raise _C.CaptureError(
                    "it reads a tensor that is not among its parameters, buffers and attributes (a function "
                    "that holds the module itself, or a global): make it an attribute"
                )


class _ModuleCompiler:
    """Makes the variants of one module."""

    def __init__(self, model: nn.Module, constants: bool, options: Options) -> None:
        self.model = model
        self.forward = model.forward
        self.names, self.positional, self.defaults = _parameters(model.forward)
        self.call = self.as_given(model)
        self.constants = constants
        self.options = options
        self.walk: Walk | None = None
        self.tree: Any = None
        self.compiled_by_torch: Callable[..., Any] | None = None
        self.jit = _C.Jit(
            model.forward,
            self.call,
            self.names,
            self.positional,
            self.defaults,
            functools.partial(_add, self),
            PLAIN,
            (FunctionalTensor, FakeTensor),
            constants,
        )

    def as_given(self, model: Callable[..., Any]) -> Callable[..., Any]:
        return _as_given(model, self.names, self.positional, self.defaults)

    def add(self, generation: int, *args: Any) -> None:
        with trace.capturing():
            if self.jit.generation != generation:
                return  # another thread has compiled meanwhile
            name = f"{type(self.model).__name__}.forward()"
            for _ in range(3):  # another thread may change the module meanwhile, but not for ever
                if self.tree is None or self.tree.changed() is not None:
                    self.take_tree(name)
                with hidden.unmoved(name.removesuffix("()"), [*args, *self.walk.opaque]):
                    spec = self.variant(args)
                if self.tree.changed() is None:
                    self.jit.add(args, spec)
                    return
            raise _C.CaptureError(
                f"{name} cannot be compiled: it changes a global that it reads, or an object in such a global"
            )

    def take_tree(self, name: str) -> None:
        """What the module is now, and what its code reads; the old one stays where this is refused."""
        walk = Walk(self.model, name, constants=self.constants)
        hidden.check(_own_functions(self.model), name.removesuffix("()"))
        tree = walk.tree()
        self.jit.set_tree(tree)
        self.walk, self.tree = walk, tree

    def variant(self, args: tuple[Any, ...]) -> dict[str, Any]:
        assert self.walk is not None
        if any(map(is_numpy, args)):
            raise TypeError("dlc.jit of a module takes tensors, not NumPy arrays: torch.from_numpy(array)")
        tensors = [tensor for _, tensor in self.walk.tensors.values()]
        if torch.is_grad_enabled() and any(
            a.requires_grad for a in (*args, *tensors) if isinstance(a, Tensor)
        ):
            return {"through": self.differentiable()}
        spec = self.compiled(args, tensors)
        # A call of an operator would meet autocast again, whose work the graph has in it already.
        if spec["callable"].calls and torch.is_autocast_enabled("cpu"):
            return {"through": self.differentiable()}
        return spec

    def differentiable(self) -> Callable[..., Any]:
        import dlc.backend  # noqa: F401  (registers it where there is no entry point)

        if self.compiled_by_torch is None:
            compiled = torch.compile(self.model, backend="dlc", options=dataclasses.asdict(self.options))
            self.compiled_by_torch = self.as_given(compiled)
        return self.compiled_by_torch

    def run(self, *given: Any) -> Any:
        """The module's call on a copy of it that has the given tensors; refuses changes of its state."""
        assert self.walk is not None
        n = len(self.names)
        shadow = copy.deepcopy(self.model, self.walk.memo(list(given[n:])))
        state = state_of(shadow, self.walk.opaque)
        # torch.compiler.is_compiling() is true, by which libraries leave out what decides by values.
        with torch.compiler._compile_session_context():
            results = self.as_given(shadow)(*given[:n])
        check_state(state)
        return results

    def compiled(self, args: tuple[Any, ...], tensors: list[Tensor]) -> dict[str, Any]:
        """See Captures.variant."""
        assert self.walk is not None
        given = (*args, *tensors)
        captures = Captures(
            f"{type(self.model).__name__}.forward",
            self.forward,
            (*self.names, *(path for path, _ in self.walk.tensors.values())),
            self.options,
            self.constants,
            None if self.constants else _check_constants,
        )
        return captures.variant(self.run, given, lambda: self.run(*map(copy_of, given)), len(args))


@torch._disable_dynamo
def _add(compiler: _ModuleCompiler, generation: int, *args: Any) -> None:
    compiler.add(generation, *args)


def jit_module(model: nn.Module, constants: bool, options: Options) -> Any:
    jit = _ModuleCompiler(model, constants, options).jit
    kind = type(model)
    jit.__wrapped__ = model
    jit.__name__, jit.__qualname__ = kind.__name__, f"<{kind.__name__}>"
    jit.__module__, jit.__doc__ = kind.__module__, kind.__doc__
    return jit
