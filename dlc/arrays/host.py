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
import inspect
import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.autograd import forward_ad

from .._C import InternalError
from . import unsigned
from .index import into
from .names import OTHERWISE, full_name
from .reductions import in_out
from .shapes import check_order
from .value import Array, is_array, is_symbol, lift, refuse, torch_dtype

_LIBRARY = torch.library.Library("dlc", "FRAGMENT")
_LIBRARY.define("numpy(str call, Tensor[] arrays, SymInt[] sizes) -> Tensor[]")


#: The sizes of each result, in order, of the arguments, of which only shapes are read.
Rule = Callable[..., list[Any]]


class Called(NamedTuple):
    """A function of the table.

    small: its results' sizes follow from those of arrays of a few elements; fills: what samples of these
    parameters are filled with (see FILLS); signature: its parameters, None where they are not known; changes:
    its result is its first argument, of which it has changed elements.
    """

    run: Callable[..., Any]
    rule: Rule | None
    small: bool = False
    fills: Mapping[str, int] = {}
    signature: inspect.Signature | None = None
    changes: bool = False
    casting: str | None = None  # of its result to that of out=: see index.into


#: What samples of parameters are filled with whose values have rules: indices are in range, probabilities
#: and ends are in order, weights have a sum.
FILLS = {
    **dict.fromkeys(("q", "indices", "multi_index", "kth", "range"), 0),
    **dict.fromkeys(("weights", "fweights", "aweights", "w"), 1),
}


#: By their names after "np.": what the operator may call.
CALLED: dict[str, Called] = {}


def named(function: Callable[..., Any]) -> str:
    return full_name(function).removeprefix("np.")


def calls(
    *functions: Any, small: bool = False, fills: Mapping[str, int] | None = None, casting: str | None = None
) -> Callable[[Rule], Rule]:
    """A decorator of a rule: these functions are called, and have results of such sizes."""

    def register(rule: Rule) -> Rule:
        for function in functions:
            enter(function, rule, small, fills=fills, casting=casting)
        return rule

    return register


def enter(
    function: Any,
    rule: Rule | None = None,
    small: bool = False,
    run: Callable[..., Any] | None = None,
    fills: Mapping[str, int] | None = None,
    casting: str | None = None,
) -> None:
    """The function may be called, where it has no compiled form; run: what is called in its place."""
    signature = signature_of(function) or signature_of(rule or PARAMETERS.get(named(function)))
    CALLED[named(function)] = Called(
        run or function, rule, small, FILLS | dict(fills or {}), signature, casting=casting
    )
    OTHERWISE[function] = functools.partial(call, named(function))


#: The parameters of functions of C, which do not say them before NumPy 2.4.
PARAMETERS: dict[str, Callable[..., Any]] = {
    "dot": lambda a, b, out=None: None,
    "matmul": lambda x1, x2, /, out=None, **options: None,
    "inner": lambda a, b, /: None,
    "vdot": lambda a, b, /: None,
    "packbits": lambda a, /, axis=None, bitorder="big": None,
    "unpackbits": lambda a, /, axis=None, count=None, bitorder="big": None,
}


def signature_of(function: Any) -> inspect.Signature | None:
    """The function's parameters; None where it does not say which they are."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


# -- a call as a text ----------------------------------------------------------------------------------


def _known_truth(value: Any) -> Any:
    """A truth value of sizes decides which sizes results have: it is a condition of the variant."""
    return bool(value) if isinstance(value, torch.SymBool) else value


def _written(value: Any, arrays: list[Any]) -> Any:
    value = _known_truth(value)
    if is_array(value) or is_symbol(value):
        arrays.append(value)
        kind = "array"
        if is_symbol(value) or value.weak:
            kind = (
                "int"
                if isinstance(value, torch.SymInt) or (is_array(value) and value.python is int)
                else "float"
            )
        elif value.scalar:
            kind = "scalar"
        dtype = unsigned.numpys(value.tensor) if is_array(value) else None
        return [kind, len(arrays) - 1, *([] if dtype is None else [dtype.str])]
    if isinstance(value, np.ndarray):
        return _written(lift(value), arrays)
    if isinstance(value, (tuple, list)):
        return ["tuple" if isinstance(value, tuple) else "list", [_written(item, arrays) for item in value]]
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
    "array": lambda arrays, k, *dtype: arrays[k].view(*dtype),
    "scalar": lambda arrays, k, *dtype: arrays[k].view(*dtype)[()],
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


def _arguments(text: _Text, arrays: list[np.ndarray]) -> tuple[list[Any], dict[str, Any]]:
    return (
        [_read(item, arrays) for item in text.args],
        {name: _read(item, arrays) for name, item in text.kwargs.items()},
    )


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


def _read_only(tensor: Tensor) -> np.ndarray:
    """An array over its memory. No function writes to an operand: the graph would not know of it."""
    array = tensor.numpy()
    array.flags.writeable = False  # of this array, not of the memory
    return array


def _run(call: str, tensors: list[Tensor], sizes: list[int]) -> list[Tensor]:
    text = _text(call)
    table, arrays = CALLED[text.name], [_read_only(tensor) for tensor in tensors]
    args, kwargs = _arguments(text, arrays)
    results = [np.asarray(leaf) for leaf in pytree.tree_leaves(table.run(*args, **kwargs))]
    if text.name.startswith("Generator."):
        results.insert(0, arrays[0])
    for result, (dtype, shape) in zip(results, _types(text, sizes), strict=True):
        if result.dtype != dtype or list(result.shape) != shape:
            raise ValueError(
                f"np.{text.name} returned an array of {result.dtype} of shape {result.shape}, where {dtype} "
                f"of shape {tuple(shape)} was expected of such arguments: call it outside of the function"
            )
    return [_own(unsigned.signed_array(result), arrays) for result in results]


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


def _hint(value: Any) -> Any:
    """What a symbol is now; 2 for one that depends on values. Anything else as it is."""
    if not is_symbol(value):
        return value
    return value.node.hint if value.node.has_hint() else 2


def _sample(value: Any, table: Called, fill: int | None, exact: bool) -> np.ndarray:
    """An array of the dtype and the sizes (small: fewer) that functions of all kinds take.

    fill: what all its elements are; exact: its sizes become conditions of the variant.
    """
    if isinstance(value, torch.SymInt):
        return np.asarray(int(value) if exact else _hint(value))
    number = value.symbol if is_array(value) else value
    if is_symbol(number) and fill is None:
        return np.asarray(_hint(number))
    array = lift(value)
    shape = [int(n) if exact else _hint(n) for n in array.shape]
    shape = [min(n, FEW) for n in shape] if table.small else shape
    made = np.full(shape, 1 if fill is None else fill, array.dtype)
    if fill is not None:
        return made
    if len(shape) > 1:
        made[...] = np.eye(*shape[-2:])  # regular, definite, of full rank
    elif array.dtype.kind in "fc":
        made[...] = np.arange(made.size).reshape(shape)  # rising
    return made


def _shapes(results: list[Any]) -> list[list[int]]:
    return [list(np.shape(result)) for result in results]


#: Functions whose order= says something else than how their results are laid out.
_ORDERS_OF_VALUES = ("sort", "argsort", "partition", "argpartition", "unravel_index", "ravel_multi_index")


class _Given(NamedTuple):
    """The arguments of a call by NumPy's names of its parameters, but out=.

    positional: the names of the parameters that args are of.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any
    positional: list[str]


def _given(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Given:
    signature = CALLED[name].signature
    if signature is None:
        refuse(f"np.{name} does not say which parameters it has, in this version of NumPy")
    args, kwargs = pytree.tree_map(_known_truth, (args, kwargs))
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        refuse(f"np.{name} of such arguments has no compiled form ({error})")
    others = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
    outs = [bound.arguments.pop("out", None)]
    outs += [bound.arguments[other].pop("out", None) for other in others if other in bound.arguments]
    if bound.arguments.get("overwrite_input"):
        bound.arguments["overwrite_input"] = False  # what it leaves there is undefined
    out = next((out for out in outs if out is not None), None)
    if name in ("sum", "prod") and out is not None:
        bound.arguments["dtype"] = in_out(bound.arguments["a"], bound.arguments.get("dtype"), out)
    if name not in _ORDERS_OF_VALUES:
        check_order(bound.arguments.get("order", kwargs.get("order")))
    found = bound.args
    positional = [
        p.name for p in signature.parameters.values() if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
    ]
    names = [positional[min(k, len(positional) - 1)] for k in range(len(found))]
    return _Given(found, bound.kwargs, out, names)


def _written_call(
    name: str, args: Any, kwargs: dict[str, Any], positional: list[str] | None = None
) -> tuple[_Text, list[Any], list[int | None]]:
    """The call as a text, the arrays that it is given, and what samples of each are filled with."""
    arrays: list[Any] = []
    fills: list[int | None] = []
    table = CALLED[name]

    def written(value: Any, parameter: str) -> Any:
        text = _written(value, arrays)
        fills.extend([table.fills.get(parameter)] * (len(arrays) - len(fills)))
        return text

    names = positional or [""] * len(args)
    text = _Text(
        name,
        [written(item, parameter) for item, parameter in zip(args, names, strict=True)],
        {key: written(item, key) for key, item in kwargs.items()},
        [],
    )
    return text, arrays, fills


def _leaves_of(name: str, like: Any) -> tuple[list[Any], Any]:
    leaves, tree = pytree.tree_flatten(like)
    for leaf in leaves:
        if not isinstance(leaf, (np.ndarray, np.generic)):
            refuse(
                f"np.{name} gives {type(leaf).__name__} of Python's here", "call it outside of the function"
            )
    return leaves, tree


def _probed(text: _Text, samples: list[np.ndarray]) -> tuple[list[Any], Any]:
    """What NumPy returns for samples of the arrays, as pytree.tree_flatten gives it."""
    table = CALLED[text.name]
    args, kwargs = _arguments(text, samples)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        leaves, tree = _leaves_of(text.name, table.run(*args, **kwargs))
    if table.rule is not None:
        expected = [list(shape) for shape in table.rule(*args, **kwargs)]
        if expected != _shapes(leaves):
            raise InternalError(
                f"np.{text.name} has results of {_shapes(leaves)}, by its rule they are of {expected}"
            )
    return leaves, tree


def call(name: str, /, *args: Any, **kwargs: Any) -> Any:
    """What the table has by this name, called when the compiled program runs."""
    table = CALLED[name]
    args, kwargs, out, names = _given(name, args, kwargs)
    text, arrays, fills = _written_call(name, args, kwargs, names)
    if table.changes:
        leaves, tree = pytree.tree_flatten(np.zeros((0,) * args[0].ndim, args[0].dtype))
    else:
        samples = [_sample(a, table, fill, table.rule is None) for a, fill in zip(arrays, fills, strict=True)]
        leaves, tree = _probed(text, samples)
    sizes = _shapes(leaves)
    if table.rule is not None:
        sizes = [list(shape) for shape in table.rule(*args, **kwargs)]
    made = _call(text, arrays, leaves, [n for shape in sizes for n in shape])
    results = [
        Array(tensor, scalar=isinstance(leaf, np.generic)) for tensor, leaf in zip(made, leaves, strict=True)
    ]
    if out is None:
        return pytree.tree_unflatten(results, tree)
    return into(out, results[0], table.casting)


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
    text, arrays, _ = _written_call(name, (Array(token), place, *args), kwargs)
    return _call(text, arrays, [np.int64(0), np.asarray(like)], shape)
