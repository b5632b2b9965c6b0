"""Which function of NumPy's is computed by which of ours; and what is left to NumPy, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .value import is_known, refuse

F = TypeVar("F", bound=Callable[..., Any])

#: By NumPy's function: ours, of arrays that are traced.
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
#: Those of them that make arrays of no arrays: what they make is traced as well, as it may be written to.
MAKERS: set[Any] = set()

_SORTS = "sorting is NumPy's: do it before or after, outside of the function"
_COUNTS = "its size depends on the values: do it outside of the function, or use np.where"
_KNOWN_REASONS = {
    **dict.fromkeys(
        ("sort", "argsort", "lexsort", "partition", "argpartition", "searchsorted", "digitize"), _SORTS
    ),
    **dict.fromkeys(
        ("median", "percentile", "quantile", "nanmedian", "nanpercentile", "nanquantile"), _SORTS
    ),
    **dict.fromkeys(("histogram", "histogram2d", "histogramdd"), "it counts: do it outside of the function"),
    "bincount": "its size depends on the values: do it outside, or count n known values, "
    "(x[:, None] == np.arange(n)).sum(0)",
    **dict.fromkeys(
        ("isin", "in1d"), "it searches: do it outside, or compare all, (x[..., None] == values).any(-1)"
    ),
    **dict.fromkeys(
        ("unique", "nonzero", "argwhere", "flatnonzero", "extract", "compress", "union1d"), _COUNTS
    ),
    **dict.fromkeys(("intersect1d", "setdiff1d", "trim_zeros", "delete"), _COUNTS),
    "allclose": "it gives a bool of Python's: use np.isclose(..).all()",
    "array_equal": "it gives a bool of Python's: use (a == b).all()",
}


def computes(*functions: Any) -> Callable[[F], F]:
    """A decorator: this is NumPy's function of such arguments."""

    def register(function: F) -> F:
        for theirs in functions:
            FUNCTIONS[theirs] = function
        return function

    return register


def named(*names: str) -> list[Any]:
    """The functions of such names, but those that this NumPy has not."""
    return [getattr(np, name) for name in names if hasattr(np, name)]


def makes(*functions: Any) -> Callable[[F], F]:
    """A decorator: this is NumPy's function, which makes arrays."""
    MAKERS.update(functions)
    return computes(*functions)


def full_name(function: Any) -> str:
    module = (getattr(function, "__module__", None) or "numpy").removeprefix("numpy")
    return f"np{module}.{getattr(function, '__name__', function)}".replace("..", ".")


def function_of(function: Any) -> Callable[..., Any]:
    """Ours for a function of NumPy's; one that refuses where there is none."""
    ours = FUNCTIONS.get(function)
    if ours is not None:
        return lambda *args, **kwargs: _checked(function, ours, args, kwargs)

    def left_to_numpy(*args: Any, **kwargs: Any) -> Any:
        if is_known((args, kwargs)):
            return function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        refuse(f"{full_name(function)} has no compiled form", _KNOWN_REASONS.get(name, ""))

    return left_to_numpy


def _checked(function: Any, ours: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    if function not in MAKERS and is_known((args, kwargs)):
        return function(*args, **kwargs)
    given = {name: value for name, value in kwargs.items() if value is not np._NoValue}
    try:
        return ours(*args, **given)
    except TypeError as error:
        if "argument" not in str(error) or error.__traceback__.tb_next is not None:  # type: ignore[union-attr]
            raise
        refuse(f"{full_name(function)} with such arguments has no compiled form ({error})")
