"""What a function may not read, as it would stay what it was at the first call: random numbers, the clock,
files and the environment. torch's own random operators are calls of each run and are none of it.

Where a name leads to such a function, the line is known and nothing is run. Generators that are reached
otherwise (by a library, an attribute of an argument) show by their state, which a capture must not move.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import os
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from ._C import CaptureError
from .options import warn

_MODULES = ("random", "secrets", "uuid", "numpy.random")
_CLOCK = ("time", "clock", "perf_counter", "monotonic", "process_time", "thread_time", "localtime", "gmtime")
_FUNCTIONS = {
    "time": {*_CLOCK, *(f"{name}_ns" for name in _CLOCK), "ctime", "strftime", "asctime"},
    "os": {"getenv", "urandom", "getrandom", "getpid", "getppid", "getcwd", "listdir", "scandir", "stat"},
    "datetime": {"now", "utcnow", "today"},
    "builtins": {"input", "open"},
    "io": {"open"},
}
_MODULE_OF = {"posix": "os", "nt": "os", "_io": "io"}


def _generators() -> tuple[type, ...]:
    numpy = sys.modules.get("numpy.random")
    return (random.Random, *((numpy.Generator, numpy.RandomState) if numpy else ()))


def _is_hidden(value: Any) -> bool:
    """Does it give something else at each call, or is it the environment?"""
    owner = getattr(value, "__self__", None)
    if value is os.environ or isinstance(owner, _generators()) or owner is os.environ:
        return True
    if not callable(value) or isinstance(value, types.ModuleType):
        return False
    module = getattr(value, "__module__", None) or getattr(owner, "__module__", None) or ""
    if any(module == m or module.startswith(f"{m}.") for m in _MODULES):
        return not isinstance(value, type) or issubclass(value, _generators())
    return getattr(value, "__name__", "") in _FUNCTIONS.get(_MODULE_OF.get(module, module), ())


class _Reader:
    """Follows the names of one function: what each chain of attributes leads to."""

    def __init__(self, function: types.FunctionType) -> None:
        self.scope = function.__globals__
        self.around: dict[str, Any] = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # not bound yet
                self.around[name] = cell.cell_contents
        self.local: dict[str, Any] = {}

    def start(self, step: dis.Instruction) -> Any:
        name = step.argval
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            return self.scope.get(name, getattr(builtins, name, None))
        if step.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF"):
            return self.around.get(name)
        if step.opname == "IMPORT_NAME":
            return sys.modules.get(name.partition(".")[0])
        return self.local.get(name) if step.opname.startswith("LOAD_FAST") and isinstance(name, str) else None

    def found(
        self, code: types.CodeType, wanted: Callable[[Any], bool] = _is_hidden
    ) -> Iterator[tuple[str, int]]:
        """Names of hidden functions, or of others that are wanted, that the code uses, and the lines."""
        value, path, line = None, "", code.co_firstlineno
        for step in dis.get_instructions(code):
            line = _line(step) or line
            if step.opname in ("EXTENDED_ARG", "PUSH_NULL", "CACHE"):
                continue
            if step.opname in ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM") and _may_ask(value):
                value, path = getattr(value, step.argval, None), f"{path}.{step.argval}"
            elif step.opname in ("STORE_FAST", "STORE_DEREF"):
                self.local[step.argval], value = value, None
                continue
            else:
                value, path = self.start(step), str(step.argval)
            if value is not None and wanted(value):
                yield path, line
                value = None
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from self.found(constant, wanted)


def _may_ask(value: Any) -> bool:
    """Attributes of these are read without running anything."""
    return isinstance(value, (types.ModuleType, type, *_generators()))


def _line(step: dis.Instruction) -> int | None:
    line = getattr(step, "line_number", None) or step.starts_line
    return line if type(line) is int else None


def _warn_of_prints(function: types.FunctionType, name: str) -> None:
    for _, line in _Reader(function).found(function.__code__, lambda value: value is print):
        warn(
            f"{name}() prints ({function.__code__.co_filename}:{line}), which is not compiled: it does so "
            "when it is captured alone, when tensors have no values yet; return what is to be printed"
        )


def check(functions: list[types.FunctionType], name: str) -> None:
    """Raises CaptureError where one of them reads hidden state; name: of the function that is captured."""
    for function in functions:
        _warn_of_prints(function, name)
        for path, line in _Reader(function).found(function.__code__):
            raise CaptureError(
                f"{name}() cannot be compiled: it reads {path} ({function.__code__.co_filename}:{line}), "
                "whose value would stay that of the first call: pass what it gives as an argument"
            )


# -- generators that move ------------------------------------------------------------------------------


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if hasattr(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.get_state()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _reached(values: list[Any]) -> Iterator[Any]:
    kinds = _generators()
    yield random._inst  # type: ignore[attr-defined]
    numpy = sys.modules.get("numpy.random")
    if numpy:
        yield numpy.mtrand._rand
    for value in values:
        inside = getattr(value, "__dict__", None)
        for part in (value, *(inside.values() if isinstance(inside, dict) else ())):
            if isinstance(part, kinds) and type(part) is not random.SystemRandom:
                yield part


@contextlib.contextmanager
def unmoved(name: str, values: list[Any]) -> Iterator[None]:
    """Raises CaptureError, after what is inside, where a generator has moved, which is put back.

    values: what may hold generators, besides those that belong to the process.
    """
    before = [(generator, repr(_state(generator))) for generator in _reached(values)]
    states = [_state(generator) for generator, _ in before]
    try:
        yield
    except BaseException:
        for (generator, _), state in zip(before, states, strict=True):
            _set_state(generator, state)
        raise
    for (generator, text), state in zip(before, states, strict=True):
        if repr(_state(generator)) != text:
            _set_state(generator, state)
            raise CaptureError(
                f"{name}() cannot be compiled: it draws from {type(generator).__name__}, and its numbers "
                "would stay those of the first call: pass them as an argument, or use torch.rand and the like"
            )
