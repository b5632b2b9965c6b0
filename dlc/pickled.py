"""How functions of dlc.jit are pickled: by name as functions are, and by value where the pickler takes
functions so (cloudpickle, which joblib uses)."""

from __future__ import annotations

import sys
import uuid
import weakref
from collections.abc import Callable
from typing import Any

#: What a function was made with, and a name for it in other processes.
_made: weakref.WeakKeyDictionary[Any, tuple[str, bool, dict[str, Any]]] = weakref.WeakKeyDictionary()
_by_token: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_kept: list[Any] = []
_MANY = 64


def made(function: Any, constants: bool, options: dict[str, Any]) -> None:
    """Remembers what dlc.jit was called with."""
    _made[function] = (uuid.uuid4().hex, constants, options)


def _by_value() -> bool:
    """Is it a pickler that takes functions by value?"""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "dump" and frame.f_globals.get("__name__", "").endswith("cloudpickle"):
            return True
        frame = frame.f_back
    return False


def _has_name(function: Any) -> bool:
    """Does another process find it by its name?  A script is another module there."""
    return function.__module__ not in ("__main__", "__mp_main__") and "<" not in function.__qualname__


def _of_name(function: Any) -> Any:
    """What has the function's name in its module: itself where dlc.jit was its decorator; None: nothing."""
    found = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found


def reduce(function: Any) -> str | tuple[Callable[..., Any], tuple[Any, ...]]:
    """What __reduce_ex__ gives; raises TypeError where there is no way."""
    if not _has_name(function) and function in _made and _by_value():
        return restore, (function.__wrapped__, *_made[function])
    if function in _made and _of_name(function) is function.__wrapped__:
        return restore, (function.__wrapped__, *_made[function])  # g = dlc.jit(f): f is found by its name
    if "<" in function.__qualname__:
        raise TypeError(
            f"{function.__name__} is compiled by dlc.jit and cannot be pickled, as no module has it by name: "
            "pickle the function itself, its __wrapped__"
        )
    return function.__qualname__


def restore(function: Any, token: str, constants: bool, options: dict[str, Any]) -> Any:
    """The function in another process: the same one each time it arrives, so that it is compiled once."""
    known = _by_token.get(token)
    if known is None:
        from .function import jit

        known = _by_token[token] = jit(function, constants, options)
        _made[known] = (token, constants, options)
        _kept.append(known)
        del _kept[:-_MANY]
    return known
