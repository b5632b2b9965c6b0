"""The methods of arrays and scalars, and indexing: all are functions of NumPy's of the same meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import elementwise, index, shapes
from .names import computes
from .value import Array, refuse, torch_dtype


def _several(function: Callable[..., Any]) -> Callable[..., Any]:
    """x.reshape(2, 3) is x.reshape((2, 3))."""

    def method(self: Array, *shape: Any, **options: Any) -> Any:
        return function(self, shape[0] if len(shape) == 1 else shape or None, **options)

    return method


def astype(
    self: Array, dtype: Any, order: Any = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Array:
    shapes.order_is_c(order)
    wanted = np.dtype(dtype)
    if not np.can_cast(self.dtype, wanted, casting):
        raise TypeError(
            f"Cannot cast array data from {self.dtype!r} to {wanted!r} according to the rule {casting!r}"
        )
    if not copy and wanted == self.dtype:
        return self
    tensor = self.tensor
    if tensor.is_complex() and wanted.kind != "c":
        tensor = tensor != 0 if wanted.kind == "b" else tensor.real
    return Array(tensor.to(torch_dtype(wanted), copy=True), scalar=self.scalar)


if hasattr(np, "astype"):
    computes(np.astype)(lambda x, dtype, /, *, copy=True, device=None: astype(x, dtype, copy=copy))


def copy(self: Array, order: Any = "C") -> Array:
    shapes.order_is_c(order)
    return Array(self.tensor.clone(), scalar=self.scalar)


def flatten(self: Array, order: Any = "C") -> Array:
    shapes.order_is_c(order)
    return Array(self.tensor.reshape(-1).clone())


def fill(self: Array, value: Any) -> None:
    index.put(self, Ellipsis, value)


def view(self: Array, dtype: Any = None, type: Any = None) -> Array:
    if type is not None or (dtype is not None and np.dtype(dtype) != self.dtype):
        refuse("x.view() of another dtype has no compiled form", "astype() converts the numbers")
    return self.view_of(lambda t: t.view(t.shape))


#: Methods that are NumPy's functions of that name.
_SAME = (
    "sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod",
    "clip", "round", "dot", "trace", "argsort", "argpartition", "searchsorted", "choose", "nonzero", "put",
)  # fmt: skip


def _numpys(name: str) -> Callable[..., Any]:
    """x.argsort(axis=0) is np.argsort(x, axis=0)."""
    return lambda self, *args, **options: getattr(np, name)(self, *args, **options)


def _changed(self: Array, to: Array) -> None:
    index.write(self, to.tensor)


_METHODS: dict[str, Callable[..., Any]] = {
    "astype": astype,
    "copy": copy,
    "__copy__": copy,
    "__deepcopy__": lambda self, memo: copy(self),
    "flatten": flatten,
    "fill": fill,
    "view": view,
    "reshape": _several(shapes.reshape),
    "transpose": _several(shapes.transpose),
    **{name: _numpys(name) for name in _SAME},
    "ravel": shapes.ravel,
    "squeeze": shapes.squeeze,
    "swapaxes": shapes.swapaxes,
    "diagonal": shapes.diagonal,
    "repeat": shapes.repeat,
    "take": shapes.take,
    "__round__": elementwise.round_,
    "compress": lambda self, condition, axis=None: np.compress(condition, self, axis),
    "sort": lambda self, axis=-1, **options: _changed(self, np.sort(self, axis, **options)),
    "partition": lambda self, kth, axis=-1, **options: _changed(
        self, np.partition(self, kth, axis, **options)
    ),
    "conj": lambda self: np.conjugate(self),
    "conjugate": lambda self: np.conjugate(self),
    "__getitem__": index.get,
    "__setitem__": index.put,
}


def _round(self: Array, decimals: Any = None) -> Any:
    if decimals is None:
        refuse("round() of an array is an int of Python's", "use np.round")
    return elementwise.round_(self, decimals)


def _set_part(name: str) -> Callable[[Array, Any], None]:
    def setter(self: Array, value: Any) -> None:
        index.put(getattr(self, name), Ellipsis, value)

    return setter


def _install() -> None:
    for name, function in (_METHODS | {"__round__": _round}).items():
        setattr(Array, name, function)
    Array.T = property(shapes.transpose)  # type: ignore[attr-defined]
    Array.mT = property(shapes.matrix_transpose)  # type: ignore[attr-defined]
    Array.real = property(shapes.real, _set_part("real"))  # type: ignore[attr-defined]
    Array.imag = property(shapes.imag, _set_part("imag"))  # type: ignore[attr-defined]


_install()
