"""What a function reads besides its arguments: globals, names of functions around it, attributes of those.

dlc.jit compiles a function once, so what it reads is part of the compiled code. Modules, functions and
classes are taken to be what they are. Plain values (numbers, text, dtypes, tuples of them) are watched: a
call fails when one has changed. Everything else (tensors, modules with parameters, lists, objects) may
change without a sign, and is refused unless the caller says that it is constant.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import enum
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ._C import Jit

#: Types of arguments and variables whose values are constants of the compiled code.
PLAIN = (
    type(None),
    bool,
    int,
    str,
    complex,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)

# Packages whose functions are not followed: what they read is not the user's.
LIBRARIES = frozenset({"torch", "numpy", "math", "cmath", "functools", "itertools", "operator", "typing"})


_DEFINITIONS = (
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    type,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    enum.Enum,
    Jit,
)


class Variable(NamedTuple):
    """A name that a function reads, where it is looked up (an object: its attribute), and its value now."""

    name: str
    holder: dict[str, Any] | types.CellType | type | types.FunctionType
    value: Any


def _library(value: Any) -> bool:
    """Is it a module, a function or a class of torch's or Python's?"""
    if not is_definition(value):
        return False
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return isinstance(module, str) and module.partition(".")[0] in LIBRARIES | {"builtins"}


def is_plain(value: Any) -> bool:
    """May it be watched by comparing it at each call?"""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return type(value) in (*PLAIN, float)


def _chains(code: types.CodeType, free: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Names from outside with the attributes that are read of them at once: ("config", "scale")."""
    chain: tuple[str, ...] = ()
    for step in dis.get_instructions(code):
        if step.opname == "EXTENDED_ARG":
            continue
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and chain:
            chain += (step.argval,)
            continue
        if chain:
            yield chain
        around = step.opname == "LOAD_DEREF" and step.argval in free
        chain = (step.argval,) if around or step.opname in ("LOAD_GLOBAL", "LOAD_NAME") else ()
    if chain:
        yield chain
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _chains(constant, free)


def _scope(function: types.FunctionType) -> dict[str, Variable]:
    """The variables of the functions around it."""
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # not bound yet: a function that calls itself
            found[name] = Variable(name, cell, cell.cell_contents)
    return found


def _follow(start: Variable, attributes: tuple[str, ...]) -> Variable:
    """The variable at the end of a chain of modules, classes and functions."""
    for attribute in attributes:
        value = start.value
        path = f"{start.name}.{attribute}"
        if _library(value) or not hasattr(value, attribute):
            break
        if isinstance(value, types.ModuleType) or (
            isinstance(value, types.FunctionType) and attribute in vars(value)
        ):
            start = Variable(path, vars(value), getattr(value, attribute))
        elif isinstance(value, type) and is_plain(getattr(value, attribute)):
            start = Variable(path, value, getattr(value, attribute))
        elif isinstance(value, type) and not callable(getattr(value, attribute)):
            return Variable(path, value, getattr(value, attribute))
        else:
            break
    return start


def _of_function(function: types.FunctionType) -> Iterator[Variable]:
    around, scope = _scope(function), function.__globals__
    for name, *attributes in _chains(function.__code__, function.__code__.co_freevars):
        if name in around:
            yield _follow(around[name], tuple(attributes))
        elif name in scope:
            yield _follow(Variable(name, scope, scope[name]), tuple(attributes))
    yield from around.values()


def _defaults(function: types.FunctionType) -> Iterator[Variable]:
    """The defaults of the parameters of a function that is called."""
    name, by_name = function.__name__, function.__kwdefaults__ or {}
    unknown = [v for v in function.__defaults__ or () if not is_plain(v) and not is_definition(v)]
    if unknown:
        yield Variable(f"{name}.__defaults__", function, unknown[0])
    elif is_plain(function.__defaults__) and function.__defaults__:
        yield Variable(f"{name}.__defaults__", function, function.__defaults__)
    for parameter, value in by_name.items():
        yield Variable(f"{name}.{parameter}", by_name, value)


def variables(function: types.FunctionType) -> list[Variable]:
    """All that the function and the functions it calls read, each once, but for what is a library's."""
    found: dict[tuple[str, int], Variable] = {}
    todo, seen = [function], {id(function.__code__)}
    while todo:
        for variable in _of_function(todo.pop()):
            value = variable.value
            if getattr(builtins, variable.name, None) is value or _library(value):
                continue
            found.setdefault((variable.name, id(variable.holder)), variable)
            value = value.__wrapped__ if isinstance(value, Jit) else value
            if isinstance(value, types.FunctionType) and id(value.__code__) not in seen:
                seen.add(id(value.__code__))
                todo.append(value)
                found.update({(v.name, id(v.holder)): v for v in _defaults(value)})
    return list(found.values())


def is_definition(value: Any) -> bool:
    """Modules, functions and classes: what they are is taken not to change."""
    return isinstance(value, _DEFINITIONS)
