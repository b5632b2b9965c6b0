"""Functions that NumPy writes in Python, of its other functions: its own text, run with ours in their place.

So they have NumPy's promotion, defaults and errors, and are compiled as far as what they are made of is.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from . import elementwise, making, products, reductions, searching, shapes, windows  # noqa: F401  (come first)
from .names import FUNCTIONS, OTHERWISE, named
from .scope import Scope

_FUNCTIONS = (
    *named(
        "atleast_3d", "bartlett", "blackman", "corrcoef", "cov", "cumulative_prod",
        "cumulative_sum", "diag_indices", "diag_indices_from", "dsplit", "dstack", "fromfunction",
        "geomspace", "gradient", "hamming", "hanning", "hsplit", "indices", "iscomplex", "isneginf",
        "isposinf", "ix_", "kaiser", "logspace", "mask_indices", "nancumprod", "nancumsum",
        "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "poly", "polyadd",
        "polyder", "polyint", "polysub", "resize", "rollaxis", "tril_indices", "tril_indices_from",
        "triu_indices", "triu_indices_from", "unstack", "unwrap", "vsplit",
    ),
    *named(
        "cross", "diagonal", "matmul", "matrix_norm", "matrix_transpose", "multi_dot", "outer",
        "tensordot", "tensorinv", "trace", "vecdot", "vector_norm", of=np.linalg,
    ),
    *(np.fft.fftfreq, np.fft.rfftfreq, np.fft.fftshift, np.fft.ifftshift),
)  # fmt: skip


class _Numpys(Scope):
    """The copies of one of NumPy's functions, and of those that are its own affair.

    The steps of its loops are not counted: the copies are kept for all captures.
    """

    counts_steps = False

    def value(self, value: Any) -> Any:
        inside = isinstance(value, types.FunctionType) and value.__name__.startswith("_")
        if inside and value.__module__.partition(".")[0] == "numpy":
            return self.copy(value)
        return super().value(value)


@functools.cache
def _copied(function: Any) -> Callable[..., Any]:
    return _Numpys().copy(getattr(function, "__wrapped__", function))


def _derive(function: Any) -> None:
    def derived(*args: Any, **options: Any) -> Any:
        return _copied(function)(*args, **options)

    if function in FUNCTIONS:
        OTHERWISE.setdefault(function, derived)
    else:
        FUNCTIONS[function] = derived


for _function in _FUNCTIONS:
    _derive(_function)
