"""Arrays of uint16, uint32 and uint64: torch has tensors of these dtypes, without arithmetic.

A function is traced with such tensors, so that dtypes and promotion are NumPy's. `Meaning` computes what is
called of them with signed integers of the same bits; at the end `as_signed` gives the whole graph signed
dtypes. So the language needs no other dtypes: an array of uint32 is one of i32 for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.overrides import TorchFunctionMode

from .._C import CaptureError
from .value import NUMPY, is_array, is_symbol, refuse, with_tensors

#: The signed dtype of the same size.
SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
#: One in which all numbers are what they are, and whose low bits are the results.
_WIDE = {torch.uint16: torch.int32, torch.uint32: torch.int64}
_TOP = -(2**63)

#: Functions of torch's that move elements, or ask for what is no element.
_MOVES = {
    *("__get__", "__set__", "__len__", "alias", "as_strided", "broadcast_to", "cat", "clone", "contiguous"),
    *("copy", "copy_", "detach", "device", "diag_embed", "diagonal", "diagonal_copy", "diagonal_scatter"),
    *("dim", "element_size", "expand", "expand_as", "expand_copy", "flatten", "flip", "gather"),
    *("__getitem__", "getitem", "index", "index_put", "index_put_", "index_select", "is_complex"),
    *("is_contiguous", "is_floating_point", "lift", "lift_fresh", "lift_fresh_copy", "meshgrid", "movedim"),
    *("narrow", "nelement", "numel", "numpy", "permute", "permute_copy", "ravel", "real", "repeat"),
    *("repeat_interleave", "requires_grad_", "reshape", "roll", "scatter", "select", "select_copy"),
    *("select_scatter", "__setitem__", "size", "slice", "slice_copy", "slice_scatter", "split", "squeeze"),
    *("squeeze_copy", "stack", "storage_offset", "stride", "sym_numel", "sym_size", "sym_storage_offset"),
    *("sym_stride", "t", "take_along_dim", "tile", "transpose", "unbind", "unflatten", "unfold"),
    *("unsafe_view", "_unsafe_view", "unsqueeze", "unsqueeze_copy", "untyped_storage", "view", "view_as"),
    *("view_copy", "where", "_reshape_alias", "_to_copy", "is_same_size", "result_type", "tril", "triu"),
    *("cond", "while_loop", "scan", "masked_scatter"),
}  # fmt: skip
_MADE = ("full", "zeros", "ones", "empty", "new_full", "new_zeros", "new_ones", "new_empty", "full_like",
         "zeros_like", "ones_like", "empty_like", "empty_strided", "new_empty_strided", "arange")  # fmt: skip
_CONVERTED = {"to": None, "type": None, "_to_copy": None, "double": torch.float64, "bool": torch.bool}


def is_unsigned(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in SIGNED


def has(value: Any) -> bool:
    """Is it an array of NumPy's of such a dtype?"""
    return type(value) is np.ndarray and _torchs(value.dtype) in SIGNED


def _torchs(dtype: np.dtype) -> Any:
    return getattr(torch, dtype.name, None) if dtype.kind == "u" else None


def signed_array(array: np.ndarray) -> np.ndarray:
    """The same bits as signed integers, in the same memory."""
    return array.view(np.dtype(f"i{array.itemsize}")) if has(array) else array


def numpys(tensor: Any) -> np.dtype | None:
    """NumPy's dtype of an unsigned tensor; None for others."""
    return NUMPY[tensor.dtype] if is_unsigned(tensor) else None


# -- numbers -------------------------------------------------------------------------------------------


def bits(tensor: Tensor) -> Tensor:
    """Signed integers of the same bits, in the same memory."""
    return tensor.view(SIGNED[tensor.dtype])


def _number(value: Any, dtype: torch.dtype) -> Any:
    """A number of Python's as the signed one of its bits."""
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    size = 8 * dtype.itemsize
    return (value + (1 << size - 1)) % (1 << size) - (1 << size - 1)


def values(tensor: Tensor) -> Tensor:
    """The same numbers in a dtype that has arithmetic; any other tensor as it is."""
    dtype = tensor.dtype
    if dtype not in SIGNED:
        return tensor
    if dtype == torch.uint64:
        refuse("it computes with uint64, which has no compiled form here", "write x.astype(np.int64)")
    return bits(tensor).to(_WIDE[dtype]) & ((1 << 8 * dtype.itemsize) - 1)


def in_order(tensor: Tensor) -> Tensor:
    """Signed numbers in the same order."""
    return bits(tensor) ^ _TOP if tensor.dtype == torch.uint64 else values(tensor)


def from_order(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers of a dtype that in_order has made these of."""
    return tensor ^ _TOP if dtype == torch.uint64 else tensor


def terms(tensor: Tensor, to: torch.dtype) -> Tensor:
    """What has the sums and products of the numbers, in the dtype added_in(to)."""
    if tensor.dtype != torch.uint64:
        return values(tensor)
    return tensor.to(to) if to.is_floating_point or to.is_complex else bits(tensor)


def added_in(to: torch.dtype) -> torch.dtype:
    """The dtype in which sums are computed that become numbers of this one."""
    return torch.int64 if to in SIGNED else to


def _float_of(whole: Tensor, to: torch.dtype) -> Tensor:
    """The bits of uint64 as floats: half of a large number, whose last bit keeps how it is rounded."""
    half = (whole >> 1) & ~_TOP | (whole & 1)
    return torch.where(whole < 0, half.to(to) * 2, whole.to(to))


def _bits_of(tensor: Tensor) -> Tensor:
    """Floats as the bits of uint64."""
    far = tensor >= 2.0**63
    return torch.where(far, (tensor - 2.0**63).to(torch.int64) ^ _TOP, tensor.to(torch.int64))


def converted(tensor: Tensor, to: torch.dtype) -> Tensor:
    """A copy of the tensor with another dtype, as NumPy converts numbers."""
    if tensor.dtype == torch.uint64 and to.is_complex:
        return _float_of(bits(tensor), torch.float64).to(to)
    if tensor.dtype == torch.uint64 and to.is_floating_point:
        return _float_of(bits(tensor), to)
    made = tensor
    if tensor.dtype in SIGNED:
        made = bits(tensor).clone() if tensor.dtype == torch.uint64 else values(tensor)
    if to not in SIGNED:
        return made.to(to)
    if made.is_complex():
        made = made.real
    if made.is_floating_point():
        made = _bits_of(made) if to == torch.uint64 else made.to(torch.int64)
    return _with(made.to(SIGNED[to]), to)


def _with(signed: Tensor, dtype: torch.dtype) -> Tensor:
    """Memory of its own with these bits."""
    return signed.view(dtype).clone()


# -- ufuncs --------------------------------------------------------------------------------------------

#: Rows whose results are the same bits for signed and unsigned numbers of one size.
_SAME = {
    *("add", "subtract", "multiply", "negative", "square", "invert", "bitwise_and", "bitwise_or"),
    *("bitwise_xor", "left_shift", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"),
    *("logical_not",),
}
_ORDERED = {"less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "fmax", "fmin"}
_KEPT = {"positive", "conjugate", "absolute", "floor", "ceil", "trunc"}


def row(name: str, ours: Callable[..., Any], dtypes: tuple[np.dtype, ...]) -> Callable[..., Any]:
    """The row of a ufunc for operands of these dtypes, of which one is unsigned; ours: that of others."""
    kinds = {_torchs(dtype) for dtype in dtypes}
    if torch.uint64 not in kinds:
        return lambda *given: ours(*(values(x) if isinstance(x, Tensor) else x for x in given))
    if len(kinds) > 1:
        refuse(f"np.{name} of uint64 and another dtype has no compiled form", "write x.astype(np.uint64)")
    if name in _KEPT:
        return torch.clone
    if name in _SAME:
        return lambda *given: ours(*(_whole(x) for x in given))
    if name in _ORDERED:
        return lambda *given: _of_order(ours(*(_ranked(x) for x in given)))
    if name == "right_shift":
        return lambda a, b: _shifted(*(_whole(x) for x in (a, b)))
    refuse(f"np.{name} of uint64 has no compiled form", "write x.astype(np.int64)")


def _whole(x: Any) -> Any:
    return bits(x) if is_unsigned(x) else x if isinstance(x, Tensor) else _number(x, torch.uint64)


def _ranked(x: Any) -> Any:
    return in_order(x) if isinstance(x, Tensor) else _number(int(x) - 2**63, torch.uint64)


def _of_order(found: Tensor) -> Tensor:
    return found if found.dtype == torch.bool else found ^ _TOP


def _shifted(a: Any, b: Any) -> Tensor:
    """The bits of uint64 shifted to the right, with zeros behind them."""
    x, y = (v if isinstance(v, Tensor) else torch.full((), v, dtype=torch.int64) for v in (a, b))
    rest = torch.bitwise_right_shift((x >> 1) & ~_TOP, torch.where(y == 0, y, y - 1))
    return torch.where(y == 0, x, rest)


# -- while a function is traced ------------------------------------------------------------------------


def _given(args: Any) -> Iterator[Any]:
    for value in args:
        if isinstance(value, (list, tuple)):
            yield from _given(value)
        else:
            yield value


class Meaning(TorchFunctionMode):
    """torch's functions of unsigned tensors: what moves elements is torch's, the rest is computed here."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = list(_given((*args, *kwargs.values())))
        if any(map(is_array, given)):  # a function of torch's on arrays
            return with_tensors(lambda *a, **k: self.__torch_function__(func, types, a, k), args, kwargs)
        found = [
            value if isinstance(value, torch.dtype) else value.dtype
            for value in given
            if (isinstance(value, torch.dtype) and value in SIGNED) or is_unsigned(value)
        ]
        if not found:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "").partition(".")[0]
        if name in _CONVERTED:
            return _convert(func, name, args, kwargs)
        if name.strip("_") in ("eq", "ne"):
            return func(*(bits(x) if is_unsigned(x) else _number(x, found[0]) for x in args), **kwargs)
        if name in _MADE:
            return _make(func, name, args, kwargs)
        if name in _MOVES or (name == "view" and len(found) > 1):
            return func(*args, **kwargs)
        dtype = str(found[0]).removeprefix("torch.")
        refuse(
            f"torch.{name.strip('_')} of {dtype} has no compiled form",
            "write x.astype(np.int64), and astype back behind it",
        )


def _convert(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    to = _CONVERTED[name] or next(
        (v for v in (*args[1:], *kwargs.values()) if isinstance(v, torch.dtype)), None
    )
    if to is None or to == args[0].dtype:
        return func(*args, **kwargs)
    return converted(args[0], to)


def _make(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    like = args[0] if args and isinstance(args[0], Tensor) else None
    to = kwargs.get("dtype") or (like.dtype if like is not None else None)
    if to not in SIGNED:
        return func(*args, **kwargs)
    if any(is_symbol(value) for value in args[1:]):
        return converted(func(*args, **(kwargs | {"dtype": torch.int64})), to)
    if "full" in name:
        args = (*args[:1], *(_number(value, to) for value in args[1:]))
        kwargs = {key: _number(value, to) for key, value in kwargs.items()}
    return _with(func(*args, **(kwargs | {"dtype": SIGNED[to]})), to)


# -- the graph -----------------------------------------------------------------------------------------


def _signed_value(value: Any) -> Any:
    if not is_unsigned(value):
        return value
    with value.fake_mode:
        return bits(value)


def _signed_dtype(value: Any) -> Any:
    return SIGNED.get(value, value) if isinstance(value, torch.dtype) else value


def _holds(graph: GraphModule, node: Node) -> bool:
    if node.op == "get_attr" and is_unsigned(getattr(graph, str(node.target), None)):
        return True
    return any(map(is_unsigned, pytree.tree_leaves(node.meta.get("val"))))


def _check(node: Node) -> None:
    name = str(getattr(node.target, "_opname", getattr(node.target, "__name__", node.target)))
    fits = name in _MOVES or name == "numpy"
    if name == "_to_copy":
        source, to = (n.meta["val"].dtype for n in (node.args[0], node))
        fits = source == to or not (source in SIGNED or source.is_floating_point)
    if node.op == "call_function" and not fits:
        raise CaptureError(f"torch.{name} of unsigned integers has no compiled form")


def as_signed(graph: GraphModule) -> None:
    """Gives all values of the graph, and of the bodies in it, that are unsigned the signed dtypes."""
    for part in graph.modules():
        if isinstance(part, GraphModule):
            _as_signed(part)


def _as_signed(graph: GraphModule) -> None:
    found = [node for node in graph.graph.nodes if _holds(graph, node)]
    views = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.view.dtype)
    views = [view for view in views if view in found or view.args[0] in found]
    for node in dict.fromkeys([*found, *(user for made in found for user in made.users)]):
        if node.op == "get_attr" and is_unsigned(getattr(graph, node.target, None)):
            setattr(graph, node.target, bits(getattr(graph, node.target)))
        elif node not in views:
            _check(node)
        node.args, node.kwargs = pytree.tree_map(_signed_dtype, (node.args, node.kwargs))
    for node in found:
        if "val" in node.meta:
            node.meta["val"] = pytree.tree_map(_signed_value, node.meta["val"])
    for node in views:
        node.replace_all_uses_with(node.args[0])
        graph.graph.erase_node(node)
    if found:
        graph.recompile()
