"""Sizes that have no form in whole numbers, such as 2 ** math.ceil(math.log2(n)): Python computes them.

A graph calls `whole` with the expression as nested tuples, whose names are those of torch's classes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

_UNARY = "sqrt cos cosh sin sinh tan tanh asin acos atan exp log asinh log2"

#: Name of a class of sympy's to the function that the user has called.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: sum(terms),
    "Mul": lambda *factors: math.prod(factors),
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Pow": pow,
    "PowByNatural": pow,
    "FloatPow": pow,
    "CeilToInt": math.ceil,
    "FloorToInt": math.floor,
    "TruncToInt": math.trunc,
    "RoundToInt": round,
    "TruncToFloat": lambda x: float(math.trunc(x)),
    "ToFloat": float,
    "Identity": lambda x: x,
    "Max": max,
    "Min": min,
} | {f"OpaqueUnaryFn_{name}": getattr(math, name) for name in _UNARY.split()}


def whole(tree: Any) -> int:
    """The value of (name, operand, ..), each operand a number or such a tuple; it is an integer."""
    return operator.index(_value(tree))


def _value(tree: Any) -> Any:
    if not isinstance(tree, tuple):
        return tree
    name, *operands = tree
    return FUNCTIONS[name](*map(_value, operands))
