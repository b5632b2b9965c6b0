"""docs/operators.md, what becomes of torch's core operators: python -m tests.ops.page

Each overload is traced on small tensors of each dtype as AOTAutograd traces it, with dlc's decompositions,
and walked. What the program then calls says what became of it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from operator import getitem
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv, statically_known_true
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from dlc import _C
from dlc.decompositions import decompositions
from tests.capture.graphs import calls

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"

CLASSES = {
    "f32 f64": (torch.float32, torch.float64),
    "f16 bf16": (torch.float16, torch.bfloat16),
    "integers": (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    "bool": (torch.bool,),
    "complex": (torch.complex64, torch.complex128),
}

MATRICES = {"aten.mm.default", "aten.addmm.default", "aten.bmm.default"}
#: Calls that are what one would want: torch has a library for them.
LIBRARY = {
    "aten.mm.default": "matrix product",
    "aten.addmm.default": "matrix product",
    "aten.bmm.default": "matrix product",
    "aten.convolution.default": "convolution",
    "aten.convolution_backward.default": "convolution",
    "aten._cdist_forward.default": "distances by a matrix product",
    "aten._fft_c2r.default": "Fourier transform",
    "aten._fft_r2c.default": "Fourier transform",
    "aten.sort.default": "sorting",
    "aten.topk.default": "sorting",
}

SHORT = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
    torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128",
}  # fmt: skip


# ---- arguments ----


def t(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.ones(shape).to(dtype)


def at(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64)


#: Arguments of the overloads whose schema alone does not say what would be valid.
ARGUMENTS: dict[str, Callable[[torch.dtype], tuple[Any, ...]]] = {
    "_adaptive_avg_pool2d.default": lambda d: (t(d, 1, 2, 6, 6), (3, 2)),
    "_adaptive_avg_pool2d_backward.default": lambda d: (t(d, 1, 2, 3, 2), t(d, 1, 2, 6, 6)),
    "_adaptive_avg_pool3d.default": lambda d: (t(d, 1, 2, 4, 6, 6), (2, 3, 2)),
    "_cdist_forward.default": lambda d: (t(d, 3, 4), t(d, 5, 4), 2.0, None),
    "_embedding_bag.default": lambda d: (t(d, 5, 4), at(6), torch.tensor([0, 2])),
    "_fft_c2r.default": lambda d: (t(d, 3, 4), (1,), 0, 6),
    "_fft_r2c.default": lambda d: (t(d, 3, 4), (1,), 0, True),
    "_log_softmax.default": lambda d: (t(d, 3, 4), 1, False),
    "_native_batch_norm_legit.no_stats": lambda d: (
        t(d, 2, 3, 4), t(d, 3), t(d, 3), True, 0.1, 1e-5),
    "_native_batch_norm_legit_no_training.default": lambda d: (
        t(d, 2, 3, 4), t(d, 3), t(d, 3), t(d, 3), t(d, 3), 0.1, 1e-5),
    "_softmax.default": lambda d: (t(d, 3, 4), 1, False),
    "_to_copy.default": lambda d: (t(d, 3, 4), torch.float32),
    "adaptive_avg_pool1d.default": lambda d: (t(d, 1, 2, 6), (3,)),
    "addmm.default": lambda d: (t(d, 5), t(d, 3, 4), t(d, 4, 5)),
    "arange.start_step": lambda d: (0, 6, 2, d),
    "as_strided.default": lambda d: (t(d, 3, 4), (2, 2), (4, 1), 1),
    "avg_pool1d.default": lambda d: (t(d, 1, 2, 6), (2,)),
    "avg_pool2d.default": lambda d: (t(d, 1, 2, 6, 6), (2, 2)),
    "avg_pool2d_backward.default": lambda d: (
        t(d, 1, 2, 3, 3), t(d, 1, 2, 6, 6), (2, 2), (2, 2), (0, 0), False, True, None),
    "avg_pool3d.default": lambda d: (t(d, 1, 2, 4, 6, 6), (2, 2, 2)),
    "bmm.default": lambda d: (t(d, 2, 3, 4), t(d, 2, 4, 5)),
    "cat.default": lambda d: ([t(d, 3, 4), t(d, 3, 4)], 1),
    "clamp.default": lambda d: (t(d, 3, 4), 0, 1),
    "clamp.Tensor": lambda d: (t(d, 3, 4), t(d, 3, 4), t(d, 3, 4)),
    "col2im.default": lambda d: (t(d, 1, 8, 4), (4, 4), (2, 2), (1, 1), (0, 0), (2, 2)),
    "constant_pad_nd.default": lambda d: (t(d, 3, 4), (1, 2), 1),
    "convolution.default": lambda d: (
        t(d, 1, 2, 6, 6), t(d, 3, 2, 3, 3), t(d, 3), (1, 1), (1, 1), (1, 1), False, (0, 0), 1),
    "convolution_backward.default": lambda d: (
        t(d, 1, 3, 6, 6), t(d, 1, 2, 6, 6), t(d, 3, 2, 3, 3), (3,), (1, 1), (1, 1), (1, 1), False,
        (0, 0), 1, (True, True, True)),
    "div.Scalar_mode": lambda d: (t(d, 3, 4), 2, "floor"),
    "div.Tensor_mode": lambda d: (t(d, 3, 4), t(d, 3, 4), "floor"),
    "cumsum.default": lambda d: (t(d, 4, 32), 0),
    "embedding.default": lambda d: (t(d, 5, 4), at(2, 3)),
    "embedding_dense_backward.default": lambda d: (t(d, 2, 3, 4), at(2, 3), 5, -1, False),
    "empty.memory_format": lambda d: ((3, 4), d),
    "empty_strided.default": lambda d: ((3, 4), (4, 1), d),
    "expand.default": lambda d: (t(d, 3, 1), (3, 4)),
    "flip.default": lambda d: (t(d, 3, 4), (0,)),
    "full.default": lambda d: ((3, 4), 1, d),
    "gather.default": lambda d: (t(d, 3, 4), 1, at(3, 2)),
    "grid_sampler_2d.default": lambda d: (t(d, 1, 2, 4, 5), t(d, 1, 3, 3, 2), 0, 0, False),
    "index.Tensor": lambda d: (t(d, 3, 4), [at(2, 3), at(3)]),
    "index_put.default": lambda d: (t(d, 3, 4), [at(2)], t(d, 2, 4), True),
    "index_select.default": lambda d: (t(d, 3, 4), 1, at(2)),
    "masked_scatter.default": lambda d: (t(d, 3, 4), t(torch.bool, 3, 4), t(d, 3, 4)),
    "max_pool2d_with_indices.default": lambda d: (t(d, 1, 2, 6, 6), (2, 2)),
    "max_pool2d_with_indices_backward.default": lambda d: (
        t(d, 1, 2, 3, 3), t(d, 1, 2, 6, 6), (2, 2), (2, 2), (0, 0), (1, 1), False, at(1, 2, 3, 3)),
    "max_pool3d_with_indices.default": lambda d: (t(d, 1, 2, 4, 6, 6), (2, 2, 2)),
    "mm.default": lambda d: (t(d, 3, 4), t(d, 4, 5)),
    "native_dropout.default": lambda d: (t(d, 3, 4), 0.5, True),
    "native_group_norm.default": lambda d: (t(d, 2, 4, 3), t(d, 4), t(d, 4), 2, 4, 3, 2, 1e-5),
    "native_group_norm_backward.default": lambda d: (
        t(d, 2, 4, 3), t(d, 2, 4, 3), t(d, 2, 2), t(d, 2, 2), t(d, 4), 2, 4, 3, 2, (True, True, True)),
    "native_layer_norm.default": lambda d: (t(d, 3, 4), (4,), t(d, 4), t(d, 4), 1e-5),
    "native_layer_norm_backward.default": lambda d: (
        t(d, 3, 4), t(d, 3, 4), (4,), t(d, 3, 1), t(d, 3, 1), t(d, 4), t(d, 4), (True, True, True)),
    "permute.default": lambda d: (t(d, 3, 4), (1, 0)),
    "pow.Scalar": lambda d: (2, t(d, 3, 4)),
    "rand.default": lambda d: ((3, 4), d),
    "randn.default": lambda d: ((3, 4), d),
    "randperm.default": lambda d: (4, d),
    "reflection_pad1d.default": lambda d: (t(d, 2, 6), (1, 2)),
    "reflection_pad2d.default": lambda d: (t(d, 2, 6, 6), (1, 2, 2, 1)),
    "reflection_pad3d.default": lambda d: (t(d, 2, 4, 6, 6), (1, 2, 2, 1, 1, 1)),
    "repeat.default": lambda d: (t(d, 3, 4), (2, 1)),
    "replication_pad2d.default": lambda d: (t(d, 2, 6, 6), (1, 2, 2, 1)),
    "replication_pad3d.default": lambda d: (t(d, 2, 4, 6, 6), (1, 2, 2, 1, 1, 1)),
    "scalar_tensor.default": lambda d: (1, d),
    "scatter.src": lambda d: (t(d, 3, 4), 1, at(3, 2), t(d, 3, 2)),
    "scatter.value": lambda d: (t(d, 3, 4), 1, at(3, 2), 1),
    "scatter_add.default": lambda d: (t(d, 3, 4), 1, at(3, 2), t(d, 3, 2)),
    "scatter_reduce.two": lambda d: (t(d, 3, 4), 1, at(3, 2), t(d, 3, 2), "sum"),
    "select_scatter.default": lambda d: (t(d, 3, 4), t(d, 4), 0, 1),
    "slice.Tensor": lambda d: (t(d, 3, 4), 1, 1, 3),
    "slice_scatter.default": lambda d: (t(d, 3, 4), t(d, 3, 2), 1, 1, 3),
    "split_with_sizes.default": lambda d: (t(d, 3, 4), (1, 3), 1),
    "squeeze.dim": lambda d: (t(d, 3, 1), 1),
    "squeeze.dims": lambda d: (t(d, 3, 1), (1,)),
    "topk.default": lambda d: (t(d, 3, 4), 2),
    "upsample_bilinear2d.vec": lambda d: (t(d, 1, 2, 4, 5), (6, 7), False, None),
    "upsample_nearest2d.vec": lambda d: (t(d, 1, 2, 4, 5), (6, 7), None),
    "view.default": lambda d: (t(d, 3, 4), (12,)),
    "where.self": lambda d: (t(torch.bool, 3, 4), t(d, 3, 4), t(d, 3, 4)),
}  # fmt: skip


def arguments(op: OpOverload, dtype: torch.dtype) -> tuple[Any, ...]:
    """Valid ones: from the table, or by the types in the schema."""
    made = ARGUMENTS.get(short(op))
    if made is not None:
        return made(dtype)
    plain = {"Tensor": lambda: t(dtype, 3, 4), "int": lambda: 1, "number": lambda: 2, "float": lambda: 2.0}
    given = [a for a in op._schema.arguments if not a.has_default_value() and not a.kwarg_only]
    kinds = [str(a.type).removeprefix("Optional[").removesuffix("]") for a in given]
    return tuple([1] if kind.startswith("List") else plain[kind]() for kind in kinds)


def keywords(op: OpOverload, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments past the positional ones of the schema go by name."""
    positional = [a.name for a in op._schema.arguments if not a.kwarg_only]
    named = [a.name for a in op._schema.arguments if a.kwarg_only]
    rest = args[len(positional) :]
    return args[: len(positional)], dict(zip(named, rest, strict=False))


# ---- outcomes ----


def short(op: OpOverload) -> str:
    return str(op).removeprefix("aten.")


def core() -> list[OpOverload]:
    """The overloads of torch's core set that compute tensors, by name, without those that write."""
    names = {
        n.removeprefix("aten::") for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")
    }
    found = []
    for name in sorted(names):
        packet, _, kind = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), kind or "default")
        numbers = all("Tensor" not in str(r.type) for r in op._schema.returns)
        if torch.Tag.core in op.tags and not op._schema.is_mutable and not numbers:
            found.append(op)
    return found


@functools.cache
def fake_mode() -> FakeTensorMode:
    shapes = ShapeEnv(allow_dynamic_output_shape_ops=True)
    return FakeTensorMode(shape_env=shapes, static_shapes=True)


def traced(op: OpOverload, args: tuple[Any, ...]) -> GraphModule:
    """The overload's graph, taken apart by dlc's decompositions and those that torch always applies."""
    flat, spec = tree_flatten(keywords(op, args))
    mode = fake_mode()
    fakes = [mode.from_tensor(a) for a in flat if isinstance(a, Tensor)]

    def call(*values: Any) -> Any:
        given = iter(values)
        args, names = tree_unflatten([next(given) if isinstance(a, Tensor) else a for a in flat], spec)
        return op(*args, **names)

    with mode, enable_python_dispatcher():
        if by(op) == "parts":
            return make_fx(call, decomposition_table=decompositions(), tracing_mode="fake")(*fakes)
        return one_node(op, flat, spec, fakes, call(*fakes))


def one_node(op: OpOverload, flat: list[Any], spec: TreeSpec, fakes: list[Tensor], val: Any) -> GraphModule:
    """What tracing would give for an overload that stays whole; quicker."""
    graph = Graph()
    inputs = [graph.placeholder(f"x{k}") for k in range(len(fakes))]
    for node, fake in zip(inputs, fakes, strict=True):
        node.meta["val"] = fake
    given = iter(inputs)
    args, names = tree_unflatten([next(given) if isinstance(a, Tensor) else a for a in flat], spec)
    made = graph.call_function(op, args, names)
    made.meta["val"] = val
    results = [made]
    if isinstance(val, (tuple, list)):
        results = [graph.call_function(getitem, (made, k)) for k in range(len(val))]
        for node, part in zip(results, val, strict=True):
            node.meta["val"] = part
    unread = [r for r in results if statically_known_true(r.meta["val"].numel() == 0)]  # as batch norm's
    graph.output(tuple(r for r in results if r not in unread))
    return GraphModule({}, graph)


def outcome(op: OpOverload, dtype: torch.dtype) -> str:
    """compiled, library, eager, or nothing where eager or torch's tracing refuses the dtype."""
    args = arguments(op, dtype)
    values, names = keywords(op, args)
    try:
        op(*values, **names)
        graph = traced(op, args)
    except (RuntimeError, NotImplementedError):
        return ""
    # what the default does with halves depends on the processor
    products = "own" if dtype.itemsize == 2 and str(op) in MATRICES else "auto"
    left = set(calls(_C.walk(graph, False, products)))
    return "compiled" if not left else "library" if left <= set(LIBRARY) else "eager"


def cell(op: OpOverload, dtypes: tuple[torch.dtype, ...]) -> str:
    """What became of a class of dtypes; where they differ, of which."""
    found = {dtype: outcome(op, dtype) for dtype in dtypes}
    kinds = list(dict.fromkeys(kind for kind in found.values() if kind))
    if len(kinds) <= 1:
        return kinds[0] if kinds else "-"
    return "; ".join(f"{kind} {' '.join(SHORT[d] for d in dtypes if found[d] == kind)}" for kind in kinds)


def by(op: OpOverload) -> str:
    if str(op) in _C.overloads():
        return "builder"
    if op in decompositions() or op.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd):
        return "parts"
    return LIBRARY.get(str(op), "")


def rows() -> Iterator[list[str]]:
    for op in core():
        yield [f"`{short(op)}`", by(op), *(cell(op, dtypes) for dtypes in CLASSES.values())]


def text() -> str:
    table = list(rows())
    whole = sum("compiled" in row[2] for row in table)
    library = sum("library" in row[2] for row in table)
    head = f"""\
# Operators

Written by `python -m tests.ops.page` for PyTorch {torch.__version__.partition("+")[0]}. The table has
the overloads of PyTorch's core set that compute tensors. For each class of dtypes it shows what becomes of a
graph that contains only this overload: {whole} of {len(table)} are compiled for float32, {library} are
library calls.

- **compiled**: kernels, which fuse with their neighbours, or a view.
- **library**: a call of a library of torch, for convolutions, transforms and sorts. The option
  [`products`](options.md) sets which matrix products are such calls too. So are products of `f16` and `bf16`
  on a processor that has instructions to multiply these.
- **eager**: a call of the eager operator; the graph around it is compiled.
- `-`: eager, or torch's tracing, refuses the dtype.

*By* gives the way: a *builder* of `csrc/capture/aten/aten.def`, or *parts*: the overload is decomposed by
`dlc/decompositions.py` or by torch before dlc sees it. A builder declines if it cannot be certain, for
instance if a size that is known only at run time might put an index out of range. Then the overload is a call
of the eager operator, and `dlc.explain` lists it. Overloads that return a number are computed with the sizes
of a call, or end a graph. Overloads that write reach dlc in functional form, with a copy.
"""
    lines = [head, f"| overload | by | {' | '.join(CLASSES)} |", "|---" * (2 + len(CLASSES)) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in table), ""])


def main() -> int:
    PAGE.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
