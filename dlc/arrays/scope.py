"""The user's function with the names of NumPy's that it reads standing for what is traced.

NumPy's functions find a traced array by its protocols wherever they are called. Those that are given none
(np.zeros(n), np.exp of a float that is an argument) are found by their names: the function is run as a copy
whose globals, closure and imports have ours in NumPy's place, and so are the functions that it names.
"""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._C import Jit
from ..trace import Never
from . import syntax
from .flow import Flow, choose
from .names import FUNCTIONS, function_of
from .source import of_user
from .ufuncs import apply_method
from .value import MAX_STEPS, MAX_UNROLLED, is_array, is_symbol, refuse, unless_unread


class _Ufunc:
    """A ufunc of NumPy's."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return apply_method(self._ufunc, "__call__", inputs, options)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._ufunc, name)
        if name not in ("reduce", "accumulate", "outer", "reduceat", "at"):
            return value
        return lambda *inputs, **options: apply_method(self._ufunc, name, inputs, options)


class _Module:
    """A module of NumPy's."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        return ours(value)

    def __repr__(self) -> str:
        return repr(self._module)


class _Ndarray(type):
    """np.ndarray: a class to compare with, which makes arrays when it is called."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        return function_of(np.ndarray)(*args, **options)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def __subclasscheck__(cls, value: type) -> bool:
        return issubclass(value, np.ndarray)

    def __getattr__(cls, name: str) -> Any:
        return getattr(np.ndarray, name)


class ndarray(metaclass=_Ndarray):
    pass


def _of_numpy(value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] == "numpy"


def _function_of_numpy(value: Any) -> bool:
    kinds = (types.FunctionType, types.BuiltinFunctionType, type(np.sum))
    return isinstance(value, kinds) and (_of_numpy(value) or value in FUNCTIONS)


def ours(value: Any) -> Any:
    """What stands for a module, a function or a ufunc of NumPy's; anything else as it is."""
    if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == "numpy":
        return _Module(value)
    if isinstance(value, np.ufunc):
        return _Ufunc(value)
    if value is np.ndarray:
        return ndarray
    return function_of(value) if _function_of_numpy(value) else value


# -- builtins ------------------------------------------------------------------------------------------


def _len(value: Any) -> Any:
    if not is_array(value) or not value.ndim:
        return len(value)
    return value.shape[0]


class _Steps:
    """range, of which all steps in a capture are counted: each is captured by itself."""

    def __init__(self, counted: bool) -> None:
        self.taken = 0
        self.counted = counted
        self.most = MAX_STEPS

    def more(self, steps: int, why: str = "") -> None:
        """Refuses so many steps of one loop."""
        if self.counted and steps > MAX_STEPS:
            because = f", since {why}" if why else ""
            refuse(
                f"its loops have {steps} steps here, of which each is captured by itself{because}, "
                f"and at most {MAX_STEPS} are",
                unless_unread(
                    "write them as operations on whole arrays, or compile one step and call it in Python's "
                    "loop"
                ),
                Never,
            )

    def range(self, *ends: Any, why: str = "") -> range:
        if any(map(is_array, ends)):
            refuse("a loop ends at a value of an array", unless_unread("end it at an int or a size"))
        known = _of_sizes(*ends) if any(map(is_symbol, ends)) else range(*ends)
        if not self.counted:
            return known
        self.taken += len(known)
        self.more(self.taken, why)
        return known


def _of_sizes(*ends: Any) -> range:
    known = range(*map(int, ends))
    if len(known) > MAX_UNROLLED:
        refuse(
            f"it loops over a size of an array, {len(known)} times",
            unless_unread(
                "write it as operations on whole arrays "
                f"(loops over up to {MAX_UNROLLED} elements are unrolled)"
            ),
            Never,
        )
    return known


def _import(name: str, scope: Any = None, local: Any = None, fromlist: Any = (), level: int = 0) -> Any:
    module = builtins.__import__(name, scope, local, fromlist, level)
    if not level and name.partition(".")[0] == "numpy":
        return _Module(module)
    return module


def _extreme(function: Callable[..., Any], better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """max or min: of values the first that no other one is better than."""

    def found(*items: Any, **options: Any) -> Any:
        if options or not any(map(is_array, items)) or len(items) < 2:
            return function(*items, **options)
        best = items[0]
        for item in items[1:]:
            best = choose(better(item, best), item, best)
        return best

    return found


_BUILTINS = {
    **vars(builtins),
    "len": _len,
    "max": _extreme(max, lambda a, b: a > b),
    "min": _extreme(min, lambda a, b: a < b),
    "__import__": _import,
}


# -- copies of functions -------------------------------------------------------------------------------


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


class Scope:
    """The copies of one function and of those that it names."""

    counts_steps = True

    def __init__(self) -> None:
        self.copies: dict[int, types.FunctionType] = {}
        self.steps = _Steps(self.counts_steps)
        self.builtins = {**_BUILTINS, "range": self.steps.range, **Flow(self.steps).names}

    def copy(self, function: types.FunctionType) -> types.FunctionType:
        known = self.copies.get(id(function))
        if known is not None:
            return known
        scope = {**function.__globals__, "__builtins__": self.builtins}
        closure = tuple(self._cell(cell) for cell in function.__closure__ or ())
        code = syntax.rewritten(function) if self.counts_steps else function.__code__
        made = types.FunctionType(
            code,
            scope,
            function.__name__,
            function.__defaults__,
            syntax.closure_of(code, function, closure) or None,
        )
        made.__kwdefaults__, made.__module__ = function.__kwdefaults__, function.__module__
        made.__dict__.update(function.__dict__)
        self.copies[id(function)] = made
        for old, new in zip(function.__closure__ or (), closure, strict=True):
            if new is not old:
                new.cell_contents = self.value(old.cell_contents)
        for name in _names(function.__code__):
            if name in scope:
                scope[name] = self.value(scope[name])
        return made

    def value(self, value: Any) -> Any:
        if isinstance(value, Jit):
            value = value.__wrapped__  # type: ignore[attr-defined]
        return self.copy(value) if of_user(value) else ours(value)

    @staticmethod
    def _cell(cell: types.CellType) -> types.CellType:
        """An empty cell for what is replaced, else the very same."""
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            return cell
        replaced = isinstance(value, Jit) or of_user(value) or ours(value) is not value
        return types.CellType() if replaced else cell


def in_numpys_meaning(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, or a function of its arguments by position, to be called with traced arrays."""
    if not isinstance(function, types.FunctionType):
        return function
    scope = Scope()
    made = scope.copy(function)

    def capture(*args: Any, **named: Any) -> Any:
        scope.steps.taken = 0
        return made(*args, **named)

    return capture
