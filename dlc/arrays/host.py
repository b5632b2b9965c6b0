"""Functions of NumPy's that a compiled program calls between its kernels.

A function that has no compiled form (sorting, linear algebra, Fourier transforms) is a call of one operator
of torch's, dlc::numpy. The operator's text says which function it is and what it is given, so a compiled
program holds all there is of a call, and nothing is registered for one.

The sizes of the results are arguments of the operator. They are found when the function is captured, as
expressions of the arrays' sizes: by a rule of the function, which NumPy itself confirms for small arrays, or
from NumPy's result for arrays of these sizes alone. Each call compares what NumPy returns with them.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.autograd import forward_ad

from .._C import InternalError
from .index import write
from .names import OTHERWISE, full_name
from .value import Array, is_array, is_symbol, lift, refuse, torch_dtype

_LIBRARY = torch.library.Library("dlc", "FRAGMENT")
_LIBRARY.define("numpy(str call, Tensor[] arrays, SymInt[] sizes) -> Tensor[]")


#: The sizes of each result, in order, of the arguments, of which only shapes are read.
Rule = Callable[..., list[Any]]


class Called(NamedTuple):
    """A function of the table.

    small: its results' sizes follow from those of arrays of a few elements; fill: whole numbers of samples.
    """

    run: Callable[..., Any]
    rule: Rule | None
    small: bool = False
    fill: int = 1


#: By their names after "np.": what the operator may call.
CALLED: dict[str, Called] = {}


def named(function: Callable[..., Any]) -> str:
    return full_name(function).removeprefix("np.")


def calls(*functions: Any, small: bool = False, fill: int = 1) -> Callable[[Rule], Rule]:
    """A decorator of a rule: these functions are called, and have results of such sizes."""

    def register(rule: Rule) -> Rule:
        for function in functions:
            enter(function, rule, small, fill=fill)
        return rule

    return register


def enter(
    function: Any,
    rule: Rule | None = None,
    small: bool = False,
    run: Callable[..., Any] | None = None,
    fill: int = 1,
) -> None:
    """The function may be called, where it has no compiled form; run: what is called in its place."""
    CALLED[named(function)] = Called(run or function, rule, small, fill)
    OTHERWISE[function] = functools.partial(call, named(function))


# -- a call as a text ----------------------------------------------------------------------------------


def _written(value: Any, arrays: list[Any]) -> Any:
    if is_array(value) or is_symbol(value):
        arrays.append(value)
        kind = "array"
        if is_symbol(value) or value.weak:
            kind = "int" if isinstance(value, torch.SymInt) else "float"
        elif value.scalar:
            kind = "scalar"
        return [kind, len(arrays) - 1]
    if isinstance(value, np.ndarray):
        return _written(lift(value), arrays)
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, [_written(item, arrays) for item in value]]
    if isinstance(value, slice):
        return ["slice", [_written(item, arrays) for item in (value.start, value.stop, value.step)]]
    if value is Ellipsis:
        return ["ellipsis"]
    if isinstance(value, np.generic):
        return ["generic", value.dtype.str, value.tobytes().hex()]
    if isinstance(value, complex):
        return ["complex", value.real.hex(), value.imag.hex()]
    if isinstance(value, float):
        return ["number", value.hex()]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (np.dtype, type)):
        return ["dtype", np.dtype(value).str]
    refuse(f"an argument of type {type(value).__name__} of a function of NumPy's has no compiled form")


_READ: dict[str, Callable[..., Any]] = {
    "array": lambda arrays, k: arrays[k],
    "scalar": lambda arrays, k: arrays[k][()],
    "int": lambda arrays, k: int(arrays[k]),
    "float": lambda arrays, k: float(arrays[k]),
    "tuple": lambda arrays, items: tuple(_read(item, arrays) for item in items),
    "list": lambda arrays, items: [_read(item, arrays) for item in items],
    "slice": lambda arrays, items: slice(*(_read(item, arrays) for item in items)),
    "ellipsis": lambda arrays: Ellipsis,
    "generic": lambda arrays, dtype, bits: np.frombuffer(bytes.fromhex(bits), dtype)[0],
    "complex": lambda arrays, re, im: complex(float.fromhex(re), float.fromhex(im)),
    "number": lambda arrays, bits: float.fromhex(bits),
    "dtype": lambda arrays, text: np.dtype(text),
}


def _read(value: Any, arrays: list[np.ndarray]) -> Any:
    return _READ[value[0]](arrays, *value[1:]) if isinstance(value, list) else value


class _Text(NamedTuple):
    """What the operator's text says."""

    name: str
    args: Any
    kwargs: dict[str, Any]
    results: list[list[Any]]  # of each: its dtype and its number of axes


@functools.lru_cache(maxsize=256)
def _text(call: str) -> _Text:
    return _Text(*json.loads(call))


def _result_of(text: _Text, arrays: list[np.ndarray]) -> Any:
    """What NumPy returns."""
    args = [_read(item, arrays) for item in text.args]
    kwargs = {name: _read(item, arrays) for name, item in text.kwargs.items()}
    return CALLED[text.name].run(*args, **kwargs)


# -- the operator --------------------------------------------------------------------------------------


def _types(text: _Text, sizes: list[Any]) -> list[tuple[np.dtype, list[Any]]]:
    found, at = [], 0
    for dtype, rank in text.results:
        found.append((np.dtype(dtype), list(sizes[at : at + rank])))
        at += rank
    return found


def _own(array: np.ndarray, arrays: list[np.ndarray]) -> Tensor:
    """The result in memory of its own, its elements in the order of C."""
    shared = any(np.may_share_memory(array, other) for other in arrays)
    array = array.copy(order="C") if shared else np.ascontiguousarray(array).reshape(array.shape)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _run(call: str, tensors: list[Tensor], sizes: list[int]) -> list[Tensor]:
    text = _text(call)
    arrays = [tensor.numpy() for tensor in tensors]
    results = [np.asarray(leaf) for leaf in pytree.tree_leaves(_result_of(text, arrays))]
    if text.name.startswith("Generator."):
        results.insert(0, arrays[0])
    for result, (dtype, shape) in zip(results, _types(text, sizes), strict=True):
        if result.dtype != dtype or list(result.shape) != shape:
            raise ValueError(
                f"np.{text.name} returned an array of {result.dtype} of shape {result.shape}, where {dtype} "
                f"of shape {tuple(shape)} was expected of such arguments: call it outside of the function"
            )
    return [_own(result, arrays) for result in results]


def _fake(call: str, tensors: list[Tensor], sizes: list[Any]) -> list[Tensor]:
    return [torch.empty(shape, dtype=torch_dtype(dtype)) for dtype, shape in _types(_text(call), sizes)]


def _no_derivative(call: str) -> NoReturn:
    raise NotImplementedError(
        f"np.{_text(call).name} is a call of NumPy, which has no derivative: write the function with torch"
    )


def _recorded(keyset: Any, call: str, tensors: list[Tensor], sizes: list[Any]) -> list[Tensor]:
    wanted = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if wanted or any(torch._C._functorch.is_gradtrackingtensor(tensor) for tensor in tensors):
        _no_derivative(call)
    if any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        _no_derivative(call)
    with torch._C._AutoDispatchBelowAutograd():
        below = keyset & torch._C._after_autograd_keyset
        return torch.ops.dlc.numpy.default.redispatch(below, call, tensors, sizes)


def _batched(info: Any, dims: Any, call: str, tensors: list[Tensor], sizes: list[Any]) -> NoReturn:
    raise NotImplementedError(
        f"np.{_text(call).name} is a call of NumPy, which torch.vmap cannot batch: "
        "write the function with torch"
    )


def _batched_by_autograd(call: str, tensors: list[Tensor], sizes: list[Any]) -> NoReturn:
    _batched(None, None, call, tensors, sizes)


_LIBRARY.impl("numpy", _run, "CPU")
_LIBRARY.impl("numpy", _batched_by_autograd, "Batched")
_LIBRARY.impl("numpy", _recorded, "Autograd", with_keyset=True)
torch.library.register_fake("dlc::numpy", _fake, lib=_LIBRARY)
torch.library.register_vmap("dlc::numpy", _batched, lib=_LIBRARY)


# -- tracing a call ------------------------------------------------------------------------------------

#: So many elements of an axis are enough to see what the sizes of results are.
FEW = 4


def _hint(size: Any) -> int:
    """The size that it has now; 2 for one that depends on values."""
    if isinstance(size, int):
        return size
    return int(size.node.hint) if size.node.has_hint() else 2


def _sample(value: Any, table: Called, exact: bool) -> np.ndarray:
    """An array of the dtype and the sizes (small: fewer) that functions of all kinds take.

    exact: its sizes become conditions of the variant.
    """
    array = value if is_array(value) else lift(value)
    shape = [int(n) if exact else _hint(n) for n in array.shape]
    shape = [min(n, FEW) for n in shape] if table.small else shape
    made = np.full(shape, table.fill, array.dtype)
    if len(shape) > 1:
        made[...] = np.eye(*shape[-2:])  # regular, definite, of full rank
    elif array.dtype.kind in "fc":
        made[...] = np.arange(made.size).reshape(shape)  # rising
    return made


def _shapes(results: list[Any]) -> list[list[int]]:
    return [list(np.shape(result)) for result in results]


def _written_call(name: str, args: Any, kwargs: dict[str, Any]) -> tuple[_Text, list[Any]]:
    arrays: list[Any] = []
    text = _Text(
        name,
        [_written(item, arrays) for item in args],
        {key: _written(item, arrays) for key, item in kwargs.items()},
        [],
    )
    return text, arrays


def _probed(text: _Text, arrays: list[Any], exact: bool) -> Any:
    """What NumPy returns for samples of the arrays."""
    table = CALLED[text.name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _result_of(text, [_sample(value, table, exact) for value in arrays])


def _sampled(value: Any, table: Called) -> Any:
    """The argument with samples for arrays, as a rule takes it."""
    return pytree.tree_map(lambda leaf: _sample(leaf, table, False) if is_array(leaf) else leaf, value)


def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """What the table has by this name, called when the compiled program runs."""
    table = CALLED[name]
    rule = table.rule
    out = kwargs.pop("out", None)
    text, arrays = _written_call(name, args, kwargs)
    like = _probed(text, arrays, rule is None)
    leaves, tree = pytree.tree_flatten(like)
    for leaf in leaves:
        if not isinstance(leaf, (np.ndarray, np.generic)):
            refuse(
                f"np.{name} gives {type(leaf).__name__} of Python's here", "call it outside of the function"
            )
    sizes = _shapes(leaves)
    if rule is not None:
        expected = [list(shape) for shape in rule(*_sampled(args, table), **_sampled(kwargs, table))]
        if expected != sizes:
            raise InternalError(f"np.{name} has results of {sizes}, by its rule they are of {expected}")
        sizes = [list(shape) for shape in rule(*args, **kwargs)]
    made = _call(text, arrays, leaves, [n for shape in sizes for n in shape])
    results = [
        Array(tensor, scalar=isinstance(leaf, np.generic)) for tensor, leaf in zip(made, leaves, strict=True)
    ]
    if out is None:
        return pytree.tree_unflatten(results, tree)
    write(out, results[0].tensor.to(out.tensor.dtype))
    return out


def _call(text: _Text, arrays: list[Any], like: list[Any], sizes: list[Any]) -> list[Tensor]:
    for leaf in like:
        torch_dtype(leaf.dtype)  # refuses
    text = text._replace(results=[[leaf.dtype.str, leaf.ndim] for leaf in like])
    return torch.ops.dlc.numpy(json.dumps(text), [lift(value).tensor for value in arrays], sizes)


def draw(
    name: str,
    place: int,
    token: Tensor,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    like: Any,
    shape: list[Any],
) -> list[Tensor]:
    """The next token, and what a generator draws, of the dtype and rank of `like` and of this shape."""
    text, arrays = _written_call(name, (Array(token), place, *args), kwargs)
    return _call(text, arrays, [np.int64(0), np.asarray(like)], shape)
