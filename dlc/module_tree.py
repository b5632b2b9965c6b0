"""What a module reads besides its arguments: its tree of modules, and what the code of their classes names.

A walk goes from the module to its children, to the lists, dicts and objects that they keep, and to the
globals that their methods read, by the rules of dlc.variables. What it finds is compared at each call
(csrc/capture/jit/jit_module.c); tensors are inputs of the compiled code, read at each call. What may change
without a sign is refused, with the way to it and what to do.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import random
import sys
import types
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from ._C import CaptureError, Jit, Tree
from .torch_init import PLAIN_KEYS, dispatch_keys
from .variables import Variable, is_definition, is_plain, variables

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_GLOBAL_HOOKS = tuple(f"_global{name}" for name in _HOOKS)
# What no forward reads.
_UNREAD = frozenset({
    *_HOOKS, "training", "_compiled_call_impl", "_non_persistent_buffers_set", "_is_full_backward_hook",
    "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
})  # fmt: skip
# Methods that run when an object is made, written down or shown, and not when it is used.
_ELSEWHERE = frozenset({
    "__init__", "__new__", "__init_subclass__", "__del__", "__repr__", "__str__", "__dir__", "__getstate__",
    "__setstate__", "__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__", "__sizeof__", "__hash__",
})  # fmt: skip
_LIBRARIES = frozenset({"torch", "numpy", *sys.stdlib_module_names})
# What an attribute may be that is looked at whether its name is read or not.
_FOLLOWED = (
    Tensor, nn.Module, list, dict, tuple, types.FunctionType, types.MethodType, functools.partial,
)  # fmt: skip
_KEPT = (types.SimpleNamespace, argparse.Namespace, type(os.environ))


def of_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _LIBRARIES


def _functions(value: Any) -> Iterator[types.FunctionType]:
    """The functions of Python in what a class has by a name."""
    if isinstance(value, property):
        yield from itertools.chain.from_iterable(map(_functions, (value.fget, value.fset)))
    elif isinstance(value, (staticmethod, classmethod, types.MethodType)):
        yield from _functions(value.__func__)
    elif isinstance(value, functools.cached_property):
        yield from _functions(value.func)
    elif isinstance(value, types.FunctionType):
        yield value
        yield from _functions(getattr(value, "__wrapped__", None))


def _names(code: types.CodeType) -> set[str]:
    """All names that code may look up: attributes, globals, and text that getattr may be given."""
    found = set(code.co_names) | {text for text in code.co_consts if isinstance(text, str)}
    return found.union(*(_names(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def _has_state(value: Any) -> bool:
    """Is it an object whose attributes say what it is? Of Python's own classes few are meant so."""
    kind = type(value)
    of_torch = kind.__module__.partition(".")[0] == "torch"
    known = not of_library(kind) or of_torch or isinstance(value, _KEPT)
    return known and bool(kind.__dictoffset__) and not isinstance(value, (dict, list, set))


def _fixed(value: Any) -> bool:
    """Is it of a class of torch's, NumPy's or Python's whose objects do not change?"""
    kind = type(value)
    keeps = isinstance(value, (list, dict, set, bytearray, random.Random))
    keeps = keeps or hasattr(value, "__setitem__") or hasattr(value, "__next__")
    return of_library(kind) and not keeps and not kind.__module__.startswith(("collections", "numpy.random"))


def is_installed(scope: dict[str, Any]) -> bool:
    """Are these the globals of a package that was installed, or of Python's library, and not worked on?"""
    file, name = scope.get("__file__"), str(scope.get("__name__")).partition(".")[0]
    packages = {"site-packages", "dist-packages"}
    return name in _LIBRARIES or (isinstance(file, str) and bool(packages & set(Path(file).parts)))


def _is_compiled(module: nn.Module) -> bool:
    """By torch.jit or torch.compile? Then its code is elsewhere."""
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    return isinstance(module, (torch.jit.ScriptModule, *([dynamo.OptimizedModule] if dynamo else ())))


class Walk:
    """One walk over a module, named in messages; raises TypeError. constants: any object may be one."""

    def __init__(self, root: nn.Module, name: str, *, constants: bool) -> None:
        self.constants = constants
        self.name = name
        self.guards: list[tuple[Any, ...]] = []  # what Tree.guard takes
        self.tensors: dict[int, tuple[str, Tensor]] = {}
        self.opaque: list[Any] = []  # objects that are what they are
        self.names: set[str] = {"forward", "__call__"}
        self.seen: dict[int, Any] = {}
        self.classes: dict[type, None] = {}
        self.code: dict[types.FunctionType, None] = {}
        self.todo: list[tuple[str, Any]] = []
        self.read: dict[int, tuple[Any, dict[str, None]]] = {}  # names that are read of a dict or a class
        self.later: list[tuple[str, str, Any]] = []  # attributes of objects, until their name is read
        self._global_hooks()
        self._value("self", root)
        self._run()
        self.opaque += [value for _, _, value in self.later]
        for kind in self.classes:
            read = self.names.union(self._special(kind)) & vars(kind).keys()
            self.read.setdefault(id(kind), (kind, {}))[1].update(dict.fromkeys(read))
        self.guards += [(holder, tuple(names)) for holder, names in self.read.values()]

    # -- what is reached -------------------------------------------------------------------------------

    def _run(self) -> None:
        """To the end: values bring classes, classes code, code names, and names values."""
        followed: set[types.FunctionType] = set()
        variable_of: set[tuple[str, int]] = set()
        while True:
            while self.todo:
                self._visit(*self.todo.pop())
            for kind in list(self.classes):
                for name in self._special(kind) | (self.names & vars(kind).keys()):
                    self.code.update(dict.fromkeys(_functions(vars(kind)[name])))
            fresh = [function for function in self.code if function not in followed]
            if fresh:
                followed.update(fresh)
                self._read(fresh, variable_of)
            self._wanted()
            if not fresh and not self.todo:
                return

    def _special(self, kind: type) -> set[str]:
        dunders = {n for n in vars(kind) if n.startswith("__") and n.endswith("__")} - _ELSEWHERE
        return {n for n in dunders if any(_functions(vars(kind)[n]))}

    def _read(self, functions: list[types.FunctionType], known: set[tuple[str, int]]) -> None:
        for function in functions:
            self.names |= _names(function.__code__)
        for installed in (True, False):
            some = [function for function in functions if is_installed(function.__globals__) == installed]
            for variable in variables(*some):
                place = (variable.name, id(variable.holder))
                if place not in known:
                    known.add(place)
                    holder = variable.holder
                    self._variable(variable, is_installed(holder) if isinstance(holder, dict) else installed)

    def _variable(self, variable: Variable, installed: bool) -> None:
        name, holder, value = variable.name.rpartition(".")[2], variable.holder, variable.value
        if installed and not (is_plain(value) or isinstance(value, types.FunctionType)):
            self.opaque.append(value)
            return
        if isinstance(value, nn.Module) and id(value) in self.seen:
            raise TypeError(
                f"{self.name} calls a function that holds {variable.name!r}, the module itself or one of its "
                "children, from outside: make the function a method"
            )
        if isinstance(value, (Tensor, nn.Module)):
            if not self.constants:
                raise TypeError(
                    f"{self.name} reads {variable.name!r}, a {type(value).__name__} that is not part of the "
                    "module: make it an attribute (tensors with register_buffer), or use "
                    "dlc.jit(model, constants=True)"
                )
            return
        if isinstance(holder, (types.FunctionType, types.CellType)):
            self.guards.append((holder,))
        elif not is_definition(value) or isinstance(value, types.FunctionType):
            self.read.setdefault(id(holder), (holder, {}))[1][name] = None
        self._value(variable.name, value)

    def _wanted(self) -> None:
        """Attributes of objects whose names have come up."""
        later, self.later = self.later, []
        for path, name, value in later:
            if name in self.names:
                self._value(path, value)
            else:
                self.later.append((path, name, value))

    # -- values ----------------------------------------------------------------------------------------

    def _value(self, path: str, value: Any) -> None:
        if is_plain(value) or id(value) in self.seen:
            return
        self.seen[id(value)] = value
        self.todo.append((path, value))

    def _items(self, path: str, value: Any) -> None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            self._value(f"{path}[{key!r}]", item)

    def _visit(self, path: str, value: Any) -> None:
        if isinstance(value, Tensor):
            self._tensor(path, value)
        elif isinstance(value, nn.Module):
            self._module(path, value)
        elif isinstance(value, (list, dict)) and not isinstance(value, OrderedDict):
            self.guards.append((value,))
            self._items(path, value)
            if type(value).__dictoffset__:
                self._class(value)
                self.guards.append((vars(value),))
        elif isinstance(value, tuple):
            self._items(path, value)
        elif type(value) in (set, frozenset) and all(map(is_plain, value)):
            self.guards.append((value,))
        elif isinstance(value, (types.FunctionType, types.MethodType)):
            self.code.update(dict.fromkeys(_functions(value)))
            self._value(f"{path}.__self__", getattr(value, "__self__", None))
        elif isinstance(value, functools.partial):
            self._items(path, (value.func, value.args, value.keywords))
        elif is_definition(value) or isinstance(value, Jit):
            self.opaque.append(value)
        elif _has_state(value):
            self._object(path, value)
        elif _fixed(value) or self.constants:
            self.opaque.append(value)
        else:
            raise TypeError(
                f"{self.name} reads {path}, a {type(value).__name__}, which may change without a sign: keep "
                "numbers, text, tensors, modules, lists or dicts there, or use dlc.jit(model, constants=True)"
            )

    def _class(self, value: Any) -> None:
        for kind in type(value).__mro__:
            if not of_library(kind) and kind not in self.classes:
                self.classes[kind] = None
                for name, item in vars(kind).items():
                    if not (name.startswith("__") or is_definition(item) or any(_functions(item))):
                        self.later.append((f"{kind.__name__}.{name}", name, item))

    def _object(self, path: str, value: Any) -> None:
        self._class(value)
        self.guards.append((value,))
        self.guards.append((vars(value),))
        for name, item in vars(value).items():
            if of_library(type(value)):  # whose code is not looked at
                self._value(f"{path}.{name}", item)
            else:
                self.later.append((f"{path}.{name}", name, item))

    def _module(self, path: str, module: nn.Module) -> None:
        self._check_module(path, module)
        self._class(module)
        self.guards.append((module,))
        self.guards.append((vars(module),))
        self.guards += [(vars(module)[name],) for name in _HOOKS if name in vars(module)]
        for name in ("_parameters", "_buffers", "_modules"):
            self.guards.append((vars(module)[name],))
            for key, item in vars(module)[name].items():
                self._value(f"{path}.{key}", item)
        for name, item in vars(module).items():
            if name in _UNREAD or name in ("_parameters", "_buffers", "_modules"):
                continue
            if of_library(type(module)) or isinstance(item, _FOLLOWED):
                self._value(f"{path}.{name}", item)
            else:
                self.later.append((f"{path}.{name}", name, item))

    # -- what is refused -------------------------------------------------------------------------------

    def _check_module(self, path: str, module: nn.Module) -> None:
        name = f"{path} ({type(module).__name__})"
        if isinstance(module, nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
            raise TypeError(f"{name} has no sizes yet: call the module once before dlc.jit compiles it")
        if _is_compiled(module):
            raise TypeError(f"{name} is compiled already: give dlc.jit the module that it was made of")
        if module.training:
            raise TypeError(
                f"{name} is in training mode: call model.eval() before dlc.jit's function is called; for "
                'training use torch.compile(model, backend="dlc")'
            )
        if getattr(module, "parametrizations", None) is not None:
            raise TypeError(
                f"{name} has parametrizations: torch.nn.utils.parametrize.remove_parametrizations makes "
                "plain parameters of them"
            )
        for hooks in _HOOKS:
            if vars(module).get(hooks):
                raise TypeError(
                    f"{name} has {hooks[1:].replace('_', ' ')}: remove them (also those of weight_norm and "
                    "spectral_norm, which have their own functions for it), or use "
                    'torch.compile(model, backend="dlc")'
                )

    def _tensor(self, path: str, tensor: Tensor) -> None:
        if type(tensor) not in (Tensor, nn.Parameter):
            raise TypeError(
                f"{path} is a {type(tensor).__name__}: dlc.jit takes plain tensors and parameters"
            )
        if tensor.device.type != "cpu" or dispatch_keys(tensor) not in PLAIN_KEYS:
            raise TypeError(
                f"{path} is not a dense tensor in the memory of the CPU: model.cpu() moves a module there"
            )
        if tensor.numel() and not tensor.untyped_storage().nbytes():
            raise TypeError(f"{path} has sizes and no memory: its storage was resized")
        self.tensors[id(tensor)] = (path, tensor)

    def _global_hooks(self) -> None:
        for name in _GLOBAL_HOOKS:
            hooks = vars(torch_module)[name]
            if hooks:
                raise TypeError(f"torch.nn.modules.module has {name[1:].replace('_', ' ')}: remove them")
            self.guards.append((hooks,))

    # -- what it is for --------------------------------------------------------------------------------

    def tree(self, *, tags: bool = True) -> Tree:
        tree = Tree(tags=tags)
        for guard in self.guards:
            tree.guard(*guard)
        for _, tensor in self.tensors.values():
            tree.tensor(tensor)
        return tree

    def memo(self, tensors: list[Any]) -> dict[int, Any]:
        """For copy.deepcopy of the module: with these in the places of its tensors."""
        walked = {id(guard[0]) for guard in self.guards}
        memo = {id(value): value for value in self.opaque if id(value) not in walked}
        memo.update(zip(self.tensors, tensors, strict=True))
        return memo


def state_of(root: Any, shared: list[Any]) -> list[tuple[str, Any, Any]]:
    """Every list, dict and set of a module and of what it keeps, but for shared objects, with its items."""
    found: list[tuple[str, Any, Any]] = []
    seen: set[int] = set(map(id, shared))
    todo: list[tuple[str, Any]] = [("self", root)]
    while todo:
        path, value = todo.pop()
        if isinstance(value, Tensor) or is_plain(value) or is_definition(value) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (dict, list)):
            found.append((path, value, value.copy()))
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            todo += [(f"{path}[{key!r}]", item) for key, item in pairs]
        elif isinstance(value, tuple):
            todo += [(f"{path}[{key}]", item) for key, item in enumerate(value)]
        elif isinstance(value, set):
            found.append((path, value, value.copy()))
        elif _has_state(value):
            found.append((path, vars(value), dict(vars(value))))
            todo += [(f"{path}.{key}", item) for key, item in vars(value).items()]
    return found


def check_state(state: list[tuple[str, Any, Any]]) -> None:
    """Raises CaptureError where something is not as state_of found it."""
    for path, now, was in state:
        if isinstance(now, dict):
            changed = [key for key in {**was, **now} if now.get(key, state) is not was.get(key, state)]
            where = f"{path}.{changed[0]}" if changed else None
        elif isinstance(now, list):
            same = len(now) == len(was) and all(a is b for a, b in zip(now, was, strict=True))
            where = None if same else path
        else:
            where = None if now == was else path
        if where is not None:
            where = where.replace("._modules.", ".").replace("['", "[").replace("']", "]")
            raise CaptureError(
                f"it changes {where}, which a compiled call would not do again: return the new value, or use "
                'torch.compile(model, backend="dlc")'
            )
