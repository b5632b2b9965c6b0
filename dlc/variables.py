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
import inspect
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ._C import Jit


def _scalars() -> tuple[type, ...]:
    """NumPy's scalars of the dtypes that torch has too; none where NumPy is not installed."""
    try:
        import numpy as np
    except ImportError:
        return ()
    words = (
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        "bool_",
        "float16",
        "float32",
    )
    return tuple(getattr(np, word) for word in (*words, "float64", "complex64", "complex128"))


def _functions() -> tuple[type, ...]:
    """The types of NumPy's functions; none where NumPy is not installed."""
    try:
        import numpy as np
    except ImportError:
        return ()
    return np.ufunc, type(np.sum)


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
    *_scalars(),
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
    *_functions(),
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


# -- methods -------------------------------------------------------------------------------------------


def _of_owner(code: types.CodeType, name: str, free: bool = False) -> Iterator[tuple[str, ...]]:
    """What is read of the variable `name`, by attributes: () where it is used as a whole or set."""
    pending = False
    for step in dis.get_instructions(code):
        if step.opname in ("EXTENDED_ARG", "PUSH_NULL", "CACHE"):
            continue
        if pending:
            reads = step.opname in ("LOAD_ATTR", "LOAD_METHOD")
            yield (step.argval,) if reads else ()
        named = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        loads = step.opname == "LOAD_DEREF" or (step.opname.startswith("LOAD_FAST") and not free)
        pending = loads and named[-1] == name
        if (loads and name in named[:-1]) or (
            step.opname.startswith("STORE_")
            and name in named[:1]
            and step.opname in ("STORE_FAST", "STORE_DEREF")
        ):
            yield ()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and name in constant.co_freevars:
            yield from _of_owner(constant, name, True)


def _attribute(owner: Any, name: str, attribute: str) -> tuple[Variable, types.FunctionType | None, Any]:
    """A variable, or (and then only to be followed) a function with the object that it is a method of."""
    path, missing = f"{name}.{attribute}", object()
    static = inspect.getattr_static(owner, attribute, missing)
    if isinstance(static, property):
        static = static.fget
    bound_to = owner
    if isinstance(static, (staticmethod, classmethod)):
        bound_to = type(owner) if isinstance(static, classmethod) else None
        static = static.__func__
    if isinstance(static, Jit):
        static = static.__wrapped__  # type: ignore[attr-defined]
    if isinstance(static, types.FunctionType) and attribute not in getattr(owner, "__dict__", {}):
        return Variable(path, type(owner), static), static, bound_to
    plain = missing if static is missing else getattr(owner, attribute, missing)
    return Variable(path, owner, getattr(owner, attribute, None) if plain is missing else plain), None, None


def _of_method(
    function: types.FunctionType, owner: Any
) -> Iterator[tuple[Variable, types.FunctionType | None, Any]]:
    """What a method reads of the object that it is bound to."""
    name = function.__code__.co_varnames[0]
    for chain in _of_owner(function.__code__, name):
        if chain:
            yield _attribute(owner, name, chain[0])
        else:
            yield Variable(name, function, owner), None, None


def variables(*functions: types.FunctionType, owner: Any = None) -> list[Variable]:
    """All that the functions and the functions they call read, each once, but for what is a library's.

    owner: the object that they are methods of, whose attributes are such variables.
    """
    return _all(functions, owner)[0]


def _all(
    given: tuple[types.FunctionType, ...], owner: Any
) -> tuple[list[Variable], list[types.FunctionType]]:
    """The variables, and the functions that have them."""
    found: dict[tuple[str, int], Variable] = {}
    functions = list(given)
    todo = [(function, owner) for function in given]
    seen = {(id(function.__code__), id(owner)) for function in given}

    def follow(called: types.FunctionType, of: Any) -> None:
        if (id(called.__code__), id(of)) in seen:
            return
        seen.add((id(called.__code__), id(of)))
        functions.append(called)
        todo.append((called, of))
        found.update({(v.name, id(v.holder)): v for v in _defaults(called)})

    while todo:
        current, of = todo.pop()
        for variable in _of_function(current):
            value = variable.value
            if getattr(builtins, variable.name, None) is value or _library(value):
                continue
            found.setdefault((variable.name, id(variable.holder)), variable)
            value = value.__wrapped__ if isinstance(value, Jit) else value
            if isinstance(value, types.FunctionType):
                follow(value, None)
        for variable, called, bound_to in _of_method(current, of) if of is not None else ():
            if called is not None:
                follow(called, bound_to)
            elif not _library(variable.value):
                found.setdefault((variable.name, id(variable.holder)), variable)
    return list(found.values()), functions


def followed(function: types.FunctionType, owner: Any = None) -> list[types.FunctionType]:
    """The function and those that it calls by name, but for a library's."""
    return _all((function,), owner)[1]


def is_definition(value: Any) -> bool:
    """Modules, functions and classes: what they are is taken not to change."""
    of_module = type(value) is Jit and isinstance(value.__wrapped__, torch.nn.Module)
    return isinstance(value, _DEFINITIONS) and not of_module
