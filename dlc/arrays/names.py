"""Which function of NumPy's is computed by which of ours; and what is left to NumPy, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .value import Refused, is_known, refuse

F = TypeVar("F", bound=Callable[..., Any])

#: By NumPy's function: ours, of arrays that are traced.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
#: Those of them that make arrays of no arrays: what they make is traced as well, as it may be written to.
MAKERS: set[Any] = set()
#: Functions that are called where ours has no compiled form, or where there is none of ours: see host.py.
OTHERWISE: dict[Any, Callable[..., Any]] = {}

_COUNTS = "its size depends on the values: do it outside of the function, or use np.where"
_LOOPS = "it calls Python for each element or row: write the function on whole arrays"
_FILES = "read and write files outside of the function"
#: What to do instead, of functions that have no form here at all.
_KNOWN_REASONS = {
    **dict.fromkeys(
        ("unique", "nonzero", "argwhere", "flatnonzero", "extract", "compress", "union1d"), _COUNTS
    ),
    **dict.fromkeys(("intersect1d", "setdiff1d", "trim_zeros"), _COUNTS),
    **dict.fromkeys(("apply_along_axis", "apply_over_axes"), _LOOPS),
    **dict.fromkeys(("load", "save", "savez", "loadtxt", "savetxt", "genfromtxt", "fromfile"), _FILES),
    "allclose": "it gives a bool of Python's: use np.isclose(..).all()",
    "array_equal": "it gives a bool of Python's: use (a == b).all()",
    "tensorsolve": "np.linalg.solve of reshaped arrays does it",
}


def _instead(function: Any) -> str:
    """What to do where there is no compiled form."""
    name = getattr(function, "__name__", "")
    return _KNOWN_REASONS.get(name, "do it before or after, outside of the function")


def computes(*functions: Any) -> Callable[[F], F]:
    """A decorator: this is NumPy's function of such arguments."""

    def register(function: F) -> F:
        for theirs in functions:
            FUNCTIONS[theirs] = function
        return function

    return register


def named(*names: str, of: Any = np) -> list[Any]:
    """The functions of such names of a module, but those that this version of NumPy has not."""
    return [getattr(of, name) for name in names if hasattr(of, name)]


def makes(*functions: Any) -> Callable[[F], F]:
    """A decorator: this is NumPy's function, which makes arrays."""
    MAKERS.update(functions)
    return computes(*functions)


def full_name(function: Any) -> str:
    module = (getattr(function, "__module__", None) or "numpy").removeprefix("numpy")
    return f"np{module}.{getattr(function, '__name__', function)}".replace("..", ".")


def function_of(function: Any) -> Callable[..., Any]:
    """Ours for a function of NumPy's; one that refuses where there is none."""
    ours = FUNCTIONS.get(function) or OTHERWISE.get(function)
    if ours is not None:
        return lambda *args, **kwargs: _checked(function, ours, args, kwargs)

    def left_to_numpy(*args: Any, **kwargs: Any) -> Any:
        if is_known((args, kwargs)):
            return function(*args, **kwargs)
        refuse(f"{full_name(function)} has no compiled form", _instead(function))

    return left_to_numpy


def _checked(function: Any, ours: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    if function not in MAKERS and is_known((args, kwargs)):
        return function(*args, **kwargs)
    given = {name: value for name, value in kwargs.items() if value is not np._NoValue}
    called = OTHERWISE.get(function)
    try:
        return ours(*args, **given)
    except Refused:
        if called is None or called is ours:
            raise
    except TypeError as error:
        if "argument" not in str(error) or error.__traceback__.tb_next is not None:  # type: ignore[union-attr]
            raise
        if called is None or called is ours:
            refuse(f"{full_name(function)} with such arguments has no compiled form ({error})")
    return called(*args, **given)
