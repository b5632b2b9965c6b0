"""NumPy's ufuncs: the loop that NumPy itself would choose, in torch's operators.

`ufunc.resolve_dtypes` says which dtypes a call computes in and gives, promotion and errors are therefore
NumPy's own. A row of the table computes one loop, for operands that have its dtypes already: tensors, or
numbers of Python's (at least one is a tensor).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from . import host, unsigned
from .index import write, write_cut
from .roots import cbrt
from .shapes import check_order
from .value import (
    Array,
    Chosen,
    Refused,
    as_tensor,
    cast,
    is_array,
    is_known,
    is_python,
    is_symbol,
    kind,
    lift,
    refuse,
    torch_dtype,
)

Row = Callable[..., Any]

# -- loops that differ from torch's operator -----------------------------------------------------------


def _is_number(value: Any) -> bool:
    return not isinstance(value, Tensor)


def _tensors(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    like = a if isinstance(a, Tensor) else b
    return tuple(torch.full((), v, dtype=like.dtype) if _is_number(v) else v for v in (a, b))  # type: ignore[return-value]


def _of_tensors(function: Callable[[Tensor, Tensor], Tensor]) -> Row:
    return lambda a, b: function(*_tensors(a, b))


def _by_parts(function: Row) -> Row:
    """A sum, of complex numbers by their parts: torch multiplies one by a complex 1 before."""

    def summed(a: Any, b: Any) -> Any:
        if not any(isinstance(x, Tensor) and x.is_complex() for x in (a, b)):
            return function(a, b)
        a, b = _tensors(a, b)
        return torch.complex(function(a.real, b.real), function(a.imag, b.imag))

    return summed


def _whole(a: Any) -> bool:
    return isinstance(a, Tensor) and not a.is_floating_point() and not a.is_complex()


def _floor_divide_whole(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient and remainder; dividing by zero gives zeros, the smallest by -1 itself."""
    if a.dtype == torch.uint8:
        safe = torch.where(b == 0, 1, b)
        q = torch.div(a, safe, rounding_mode="floor")
    else:
        safe = torch.where((b == 0) | (b == -1), 1, b)
        q = torch.where(b == -1, -a, torch.div(a, safe, rounding_mode="floor"))
    zero = torch.zeros((), dtype=a.dtype)
    return torch.where(b == 0, zero, q), torch.where(b == 0, zero, a - q * b)


def _divide_by_known(a: Tensor, b: int) -> tuple[Tensor, Tensor] | None:
    if not _is_number(b) or b in (0, -1) or _is_number(a):
        return None
    q = torch.div(a, b, rounding_mode="floor")
    return q, a - q * b


def _divmod(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    x, y = _tensors(a, b)
    if _whole(x):
        return _divide_by_known(a, b) or _floor_divide_whole(x, y)
    remainder = _remainder(x, y)
    return torch.floor_divide(x, y), remainder


def _floor_divide(a: Any, b: Any) -> Tensor:
    x, y = _tensors(a, b)
    if _whole(x):
        return (_divide_by_known(a, b) or _floor_divide_whole(x, y))[0]
    return torch.floor_divide(x, y)


def _remainder(a: Any, b: Any) -> Tensor:
    x, y = _tensors(a, b)
    if _whole(x):
        return (_divide_by_known(a, b) or _floor_divide_whole(x, y))[1]
    found = torch.remainder(x, y)
    return torch.where(found == 0, torch.copysign(torch.zeros((), dtype=x.dtype), y), found)


def _fmod(a: Any, b: Any) -> Tensor:
    x, y = _tensors(a, b)
    if not _whole(x):
        return torch.fmod(x, y)
    _, remainder = _floor_divide_whole(x, y)
    return torch.where((remainder != 0) & ((x < 0) != (y < 0)), remainder - y, remainder)


def _power(a: Any, b: Any) -> Tensor:
    if _is_number(b):
        if _whole(a) and b < 0:
            raise ValueError("Integers to negative integer powers are not allowed.")
        shortcuts = {2: lambda: a * a, 1: a.clone, 0.5: a.sqrt}
        if b in shortcuts and not (b == 0.5 and _whole(a)):
            return shortcuts[b]()
        return torch.pow(a, b)
    if _whole(b) and b.dtype != torch.uint8:
        refuse(
            "integers to the power of an array of integers are an error of NumPy's where one is negative, "
            "which is not known when the function is captured",
            "give one of them as floats",
        )
    return torch.pow(*_tensors(a, b))


def _sign(a: Tensor) -> Tensor:
    return torch.where(torch.isnan(a), a, torch.sign(a)) if a.is_floating_point() else torch.sign(a)


def _logical(function: Callable[..., Tensor]) -> Row:
    def row(*operands: Any) -> Tensor:
        return function(*(v != 0 if isinstance(v, Tensor) else torch.full((), bool(v)) for v in operands))

    return row


def _absolute(a: Tensor) -> Tensor:
    return a.clone() if a.dtype == torch.bool else torch.abs(a)


def _reciprocal(a: Tensor) -> Tensor:
    if _whole(a):
        refuse("np.reciprocal of integers", "write 1 / x")
    return torch.reciprocal(a)


def _unless_whole(function: Callable[[Tensor], Tensor]) -> Row:
    return lambda a: a.clone() if _whole(a) else function(a)


def _times(factor: float) -> Row:
    return lambda a: a * factor


_UNARY: dict[str, Row] = {
    name: getattr(torch, other or name)
    for name, other in {
        **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos")),
        **dict.fromkeys(("tan", "sinh", "cosh", "tanh", "isfinite", "isinf", "isnan", "signbit", "square")),
        "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
        "arctanh": "atanh", "negative": "neg", "rint": "round", "invert": "bitwise_not",
    }.items()
}  # fmt: skip

TABLE: dict[str, Row] = {
    **_UNARY,
    "absolute": _absolute,
    "fabs": torch.abs,
    "positive": torch.clone,
    "sign": _sign,
    "reciprocal": _reciprocal,
    "cbrt": cbrt,
    "conjugate": lambda a: torch.conj_physical(a) if a.is_complex() else a.clone(),
    "floor": _unless_whole(torch.floor),
    "ceil": _unless_whole(torch.ceil),
    "trunc": _unless_whole(torch.trunc),
    "deg2rad": _times(np.pi / 180.0),
    "radians": _times(np.pi / 180.0),
    "rad2deg": _times(180.0 / np.pi),
    "degrees": _times(180.0 / np.pi),
    "logical_not": _logical(torch.logical_not),
    "logical_and": _logical(torch.logical_and),
    "logical_or": _logical(torch.logical_or),
    "logical_xor": _logical(torch.logical_xor),
    "add": _by_parts(torch.add),
    "subtract": _by_parts(lambda a, b: torch.sub(*_tensors(a, b)) if _is_number(a) else torch.sub(a, b)),
    "multiply": torch.mul,
    "divide": lambda a, b: torch.div(*_tensors(a, b)) if _is_number(a) else torch.div(a, b),
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "divmod": _divmod,
    "fmod": _fmod,
    "power": _power,
    "float_power": _power,
    "equal": _of_tensors(torch.eq),
    "not_equal": _of_tensors(torch.ne),
    "less": _of_tensors(torch.lt),
    "less_equal": _of_tensors(torch.le),
    "greater": _of_tensors(torch.gt),
    "greater_equal": _of_tensors(torch.ge),
    "maximum": _of_tensors(torch.maximum),
    "minimum": _of_tensors(torch.minimum),
    "fmax": _of_tensors(torch.fmax),
    "fmin": _of_tensors(torch.fmin),
    "hypot": _of_tensors(torch.hypot),
    "arctan2": _of_tensors(torch.atan2),
    "copysign": _of_tensors(torch.copysign),
    "heaviside": _of_tensors(lambda a, b: torch.where(torch.isnan(a), a, torch.heaviside(a, b))),
    "logaddexp": _of_tensors(torch.logaddexp),
    "logaddexp2": _of_tensors(torch.logaddexp2),
    "gcd": _of_tensors(lambda a, b: torch.gcd(a, b).abs()),
    "bitwise_and": _of_tensors(torch.bitwise_and),
    "bitwise_or": _of_tensors(torch.bitwise_or),
    "bitwise_xor": _of_tensors(torch.bitwise_xor),
    "left_shift": _of_tensors(torch.bitwise_left_shift),
    "right_shift": _of_tensors(torch.bitwise_right_shift),
}  # fmt: skip

#: Rows that compute with complex numbers as NumPy does.
_OF_COMPLEX = {
    *("add", "subtract", "multiply", "divide", "power", "float_power", "negative", "positive", "absolute"),
    *("conjugate", "square", "reciprocal", "equal", "not_equal", "isnan", "isinf", "isfinite", "sqrt", "exp"),
    *("log", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh", "logical_not", "logical_and"),
    *("logical_or", "logical_xor"),
}

# -- a call --------------------------------------------------------------------------------------------


def _loop(ufunc: np.ufunc, inputs: tuple[Any, ...], outs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    kinds = tuple(kind(x) for x in inputs)
    given = tuple(None if out is None else out.dtype for out in outs)
    if all(isinstance(k, type) for k in kinds):
        kinds = tuple(np.dtype(k) for k in kinds)
    dtype, casting, signature = options.get("dtype"), options.get("casting", "same_kind"), {}
    if dtype is not None:
        signature = {"signature": (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout}
    return ufunc.resolve_dtypes((*kinds, *given), casting=casting, **signature)


def _outs(out: Any, count: int) -> tuple[Any, ...]:
    outs = out if isinstance(out, tuple) else (out,) * (1 if out is not None else count)
    outs = (None,) * count if out is None else outs
    if any(o is not None and not is_array(o) for o in outs):
        refuse(
            "it writes to an array that NumPy made",
            "make it in the function, by np.empty_like(x) or the like",
        )
    return outs


def _finish(result: Tensor, dtype: np.dtype, out: Any, where: Any) -> Array:
    result = result.to(torch_dtype(dtype))
    if out is None:
        if where is not True:
            refuse("where= without out= leaves elements unset", "give out=, or use np.where")
        return Array(result, scalar=result.dim() == 0)
    if where is not True:
        result = torch.where(lift(where).tensor, result, out.tensor)
    write(out, result.to(out.tensor.dtype))
    return out


def _comparable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A number of Python's that the other's dtype cannot hold is compared all the same, as int64."""
    dtypes = [np.dtype(k) for k in map(kind, inputs) if not isinstance(k, type) and k.kind in "iu"]
    if not dtypes:
        return inputs
    limits = np.iinfo(dtypes[0])
    far = [type(x) is int and not limits.min <= x <= limits.max for x in inputs]
    return tuple(np.int64(x) if out else x for x, out in zip(inputs, far, strict=True))


def _is_one(x: Any, like: Chosen) -> bool:
    """May it be an operand beside what a mask has chosen?  A number is, and what that mask has chosen."""
    if not is_array(x):
        return is_symbol(x) or np.isscalar(x)
    found = x.chosen
    if found is None:
        return x.ndim == 0
    same = found.places is like.places and found.writes == like.writes
    same = same or (like.cut is not None and like.cut.same_places(found.cut))
    return same and found.whole.dim() == like.whole.dim()


def _of_chosen(ufunc: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """ufunc of what one mask has chosen, computed of all elements: see Chosen.  None for other operands."""
    chosen = [x.chosen for x in inputs if is_array(x) and x.chosen is not None]
    if not chosen or ufunc.nout != 1 or options.keys() - {"out"} or len(inputs) != ufunc.nin:
        return None
    out = options.get("out")
    if not all(_is_one(x, chosen[0]) for x in inputs) or (out is not None and out is not inputs[0]):
        return None
    whole = [Array(x.chosen.whole) if is_array(x) and x.chosen is not None else x for x in inputs]
    if out is None:
        return Array(None, chosen=chosen[0].with_whole(apply(ufunc, tuple(whole), {}).tensor))
    if out.chosen is None:
        return None
    into = Array(out.chosen.whole.clone())
    made, cut = out.chosen.with_whole(apply(ufunc, tuple(whole), {"out": into}).tensor), out.chosen.cut
    if cut is not None:  # a view: its array has the new values
        write_cut(out.chosen, Array(None, chosen=made))
        made = made._replace(cut=cut._replace(writes=cut.of.root.writes))
    out.chosen = made
    return out


def _name(ufunc: np.ufunc) -> str:
    """np.sin; another library's by its name alone, as it does not say which library's it is."""
    return f"{'np.' if getattr(np, ufunc.__name__, None) is ufunc else ''}{ufunc.__name__}"


def _of_torch(ufunc: np.ufunc) -> str:
    """What torch has of that name, to use instead, or that there is none."""
    for name in (ufunc.__name__, {"gammaln": "lgamma", "psi": "digamma"}.get(ufunc.__name__, "")):
        if name and callable(getattr(torch.special, name, None)):
            return f"torch.special.{name}(x) is compiled, also of arrays"
        if name and callable(getattr(torch, name, None)):
            return f"torch.{name}(x) is compiled, also of arrays"
    return "do it before or after, outside of the function"


def apply(ufunc: np.ufunc, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """ufunc(*inputs, **options)."""
    done = _of_chosen(ufunc, inputs, options)
    if done is not None:
        return done
    options = dict(options)
    out, where = options.pop("out", None), options.pop("where", True)
    inputs, rest = tuple(inputs[: ufunc.nin]), inputs[ufunc.nin :]
    out = (*rest, *(None,) * (ufunc.nout - len(rest))) if rest else out
    if out is None and is_known((inputs, where, options)):
        return ufunc(*inputs, where=where, **options)
    outs = _outs(out, ufunc.nout)
    check_order(options.pop("order", None))
    try:
        results, dtypes = _computed(ufunc, inputs, outs, options)
    except Refused:
        if getattr(np, ufunc.__name__, None) is not ufunc:
            raise
        table = "gufunc" if ufunc.signature else "ufunc"
        called = host.call(table, ufunc.__name__, *inputs, **options)
        found = called if isinstance(called, tuple) else (called,)
        results = tuple(result.tensor for result in found)
        dtypes = tuple(
            _of_out(ufunc, result, o, options.get("casting", "same_kind"))
            for result, o in zip(found, outs, strict=True)
        )
    done = [_finish(*given, where) for given in zip(results, dtypes, outs, strict=True)]
    return done[0] if ufunc.nout == 1 else tuple(done)


def _of_out(ufunc: np.ufunc, result: Array, out: Array | None, casting: str) -> np.dtype:
    """The dtype of out=, which the result can be cast to; that of the result where there is none."""
    if out is None:
        return result.dtype
    if not np.can_cast(result.dtype, out.dtype, casting):
        raise TypeError(
            f"Cannot cast ufunc {ufunc.__name__!r} output from {result.dtype!r} to {out.dtype!r} "
            f"with casting rule {casting!r}"
        )
    return out.dtype


def _computed(
    ufunc: np.ufunc, inputs: tuple[Any, ...], outs: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Tensor, ...], tuple[np.dtype, ...]]:
    """The results of the loop that NumPy would choose, and their dtypes; refuses where it has no row."""
    row = TABLE.get(ufunc.__name__)
    if row is None:
        refuse(f"{_name(ufunc)} has no compiled form", _of_torch(ufunc))
    if not options.keys() <= {"dtype", "casting"}:
        refuse(f"np.{ufunc.__name__}({', '.join(options)}=..) has no compiled form")
    if ufunc in _COMPARED.values():
        inputs = _comparable(inputs)
    dtypes = _loop(ufunc, inputs, outs, options)
    if any(dtype.kind == "c" for dtype in dtypes) and ufunc.__name__ not in _OF_COMPLEX:
        refuse(f"np.{ufunc.__name__} of complex numbers has no compiled form", "compute with their parts")
    operands = [cast(x, dtype) for x, dtype in zip(inputs, dtypes, strict=False)]
    if not any(isinstance(x, Tensor) for x in operands):
        operands[0] = as_tensor(operands[0], dtypes[0])
    if any(torch_dtype(dtype) in unsigned.SIGNED for dtype in dtypes[: ufunc.nin]):
        row = unsigned.row(ufunc.__name__, row, dtypes[: ufunc.nin])
    results = row(*operands)
    return results if isinstance(results, tuple) else (results,), dtypes[ufunc.nin :]


def apply_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """ufunc(..) or ufunc.method(..)."""
    if method == "__call__":
        from . import names

        if ufunc in names.FUNCTIONS:  # products
            return names.function_of(ufunc)(*inputs, **options)
        return apply(ufunc, inputs, options)
    from . import called, names

    if method == "at":
        return called.ufunc_at(ufunc, *inputs)
    known = {
        ("add", "reduce"): np.sum, ("multiply", "reduce"): np.prod, ("maximum", "reduce"): np.max,
        ("minimum", "reduce"): np.min, ("logical_and", "reduce"): np.all, ("logical_or", "reduce"): np.any,
        ("add", "accumulate"): np.cumsum, ("multiply", "accumulate"): np.cumprod,
    }.get((ufunc.__name__, method))  # fmt: skip
    if known is not None and options.keys() <= {"axis", "dtype", "out", "keepdims"} and len(inputs) < 3:
        axis = inputs[1] if len(inputs) > 1 else options.pop("axis", 0)
        return names.function_of(known)(inputs[0], axis=axis, **options)
    if method == "outer" and not options and len(inputs) == 2:
        a, b = map(lift, inputs)
        return apply(ufunc, (a[(..., *(None,) * b.ndim)], b), {})
    if getattr(np, ufunc.__name__, None) is not ufunc:
        refuse(f"{_name(ufunc)}.{method} has no compiled form")
    return host.call(f"ufunc.{method}", ufunc.__name__, *inputs, **options)


# -- operators -----------------------------------------------------------------------------------------

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "divmod": np.divmod, "pow": np.power, "lshift": np.left_shift,
    "rshift": np.right_shift,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "matmul": np.matmul,
}  # fmt: skip
_COMPARED = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


def _of_ints(ufunc: np.ufunc, *operands: Any) -> Any:
    """An operator of Python's ints, of which one is traced."""
    if ufunc is np.power and (is_array(operands[1]) or operands[1] < 0):
        refuse("Python's int to a power that is not known, or below zero", "use np.power of floats")
    whole = np.dtype(np.int64)
    given = [as_tensor(x, whole) for x in operands]
    results = (
        TABLE[ufunc.__name__](given[0], operands[1]) if ufunc is np.power else TABLE[ufunc.__name__](*given)
    )
    made = tuple(
        Array(r, scalar=True, weak=r.dtype != torch.bool)
        for r in (results if isinstance(results, tuple) else (results,))
    )
    return made if isinstance(results, tuple) else made[0]


def _is_int(value: Any) -> bool:
    return value.python is int if is_array(value) else isinstance(value, (bool, int, torch.SymInt))


def _of_python(ufunc: np.ufunc, *operands: Any) -> Any:
    """An operator of Python's numbers, of which one is traced: it gives such a number."""
    if ufunc is not np.divide and all(map(_is_int, operands)):
        return _of_ints(ufunc, *operands)
    double, name = np.dtype(float), ufunc.__name__
    whole = name != "power" or (isinstance(operands[1], int) and not is_array(operands[1]))
    if not whole or any(isinstance(x, complex) and not is_array(x) for x in operands):
        refuse("Python's float to a power that is no int, or with a complex number", "use np.power, np.sqrt")
    given = [as_tensor(x, double) for x in operands]
    results = TABLE[name](given[0], operands[1]) if name == "power" else TABLE[name](*given)
    if isinstance(results, tuple):
        return tuple(Array(result, scalar=True, weak=True) for result in results)
    return Array(results, scalar=True, weak=results.dtype == torch.float64)


def _operate(ufunc: np.ufunc, *operands: Any) -> Any:
    if all(map(is_python, operands)):
        return _of_python(ufunc, *operands)
    if ufunc is np.power and kind(operands[0]) == np.dtype(bool) and is_known(operands[1]):
        refuse("a bool to a power", "write x.astype(int) ** n")
    return apply_method(ufunc, "__call__", operands, {})


def _forward(ufunc: np.ufunc) -> Any:
    def method(self: Array, other: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented  # torch's meaning
        return _operate(ufunc, self, other)

    return method


def _reflected(ufunc: np.ufunc) -> Any:
    return lambda self, other: _operate(ufunc, other, self)


def _in_place(ufunc: np.ufunc) -> Any:
    def method(self: Array, other: Any) -> Any:
        if self.scalar:
            return NotImplemented  # it is another one afterwards
        if ufunc is np.matmul:
            refuse("@= of arrays", "write x = x @ y")
        return apply(ufunc, (self, lift(other) if isinstance(other, Tensor) else other), {"out": self})

    return method


def _unary(ufunc: np.ufunc) -> Any:
    return lambda self: _operate(ufunc, self)


def _install() -> None:
    for name, ufunc in (_BINARY | _COMPARED).items():
        setattr(Array, f"__{name}__", _forward(ufunc))
    for name, ufunc in _BINARY.items():
        setattr(Array, f"__r{name}__", _reflected(ufunc))
        if name != "divmod":
            setattr(Array, f"__i{name}__", _in_place(ufunc))
    for name, ufunc in {
        "neg": np.negative,
        "pos": np.positive,
        "abs": np.absolute,
        "invert": np.invert,
    }.items():
        setattr(Array, f"__{name}__", _unary(ufunc))


_install()
