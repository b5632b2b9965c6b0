"""What dlc.save writes: a model of torch's, a kernel or a program of text as a program with a signature."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import keyword
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor, nn
from torch._export.utils import _collect_all_valid_cia_ops, _get_decomp_for_cia
from torch._higher_order_ops.effects import _get_effect, _register_effectful_op
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.passes.dialect.common.cse_pass import CSEPass

from .. import _C, ir, torch_init, trace  # noqa: F401  (before anything is compiled)
from ..compiler import compile_with
from ..decompositions import decompositions
from ..layouts import LaidAsEager, laid_as_eager
from ..notation import Kernel
from ..options import parse
from . import FileError, is_onnx
from .alone import alone
from .model import FORMAT, Model, _dims, _of_tensor
from .signature import Node, Signature, State, Weight, describe
from .strided import refuse_places


class _Function(nn.Module):
    """A function as a module, with the names of its arguments."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        super().__init__()
        if inspect.ismethod(fn) and isinstance(fn.__self__, nn.Module):
            self.owner = fn.__self__  # its parameters are found by their names

        # torch notes the lines of functions named forward, and of those that it is told of.
        getattr(torch.fx.proxy, "_register_stack_trace_anchor", lambda fn: None)(fn)

        @functools.wraps(fn)
        def forward(*args: Any, **kwargs: Any) -> Any:
            return fn(*args, **kwargs)

        self.forward = forward  # type: ignore[method-assign]


def _of_arrays(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy arrays as one of tensors that means what NumPy computes: as dlc.jit takes it."""
    from ..arrays.capture import of_tensors
    from ..arrays.scope import in_numpys_meaning

    names = tuple(inspect.signature(fn).parameters)
    dtypes: list[np.dtype | None] = []
    run = of_tensors(in_numpys_meaning(fn), names, set(), frozenset(), [], dtypes)

    @functools.wraps(fn)
    def call(*args: Any) -> Any:
        results = pytree.tree_map_only(trace.Scalar, lambda scalar: scalar.tensor, run(*args))
        unsigned = [str(dtype) for dtype in dtypes if dtype]
        if unsigned:
            raise FileError(f"a file has no results of {', '.join(unsigned)}: convert them to a signed dtype")
        return results

    return call


def _dense(model: nn.Module) -> nn.Module:
    """The model with its tensors in rows: a file has them so. A copy, if one is not."""
    tensors = [*model.parameters(), *model.buffers()]
    tensors += [t for part in model.modules() for t in vars(part).values() if isinstance(t, Tensor)]
    if all(t.is_contiguous() for t in tensors):
        return model
    memo = {id(t): _in_rows(t) for t in tensors if not t.is_contiguous()}
    return copy.deepcopy(model, memo)


def _in_rows(tensor: Tensor) -> Tensor:
    rows = tensor.detach().contiguous()
    rows = nn.Parameter(rows, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else rows
    rows._dlc_rows_of = True  # type: ignore[attr-defined]  # whose memory has another order: see refuse_places
    return rows


def _rows(value: Any) -> Any:
    """An argument of the example, as the loaded model will get it."""

    def one(t: Tensor) -> Tensor:
        if t.device.type != "cpu" or t.layout is not torch.strided:
            raise FileError(
                f"an argument is a tensor on {t.device} ({t.layout}): dense ones on the CPU are taken"
            )
        t = t.detach().resolve_conj().resolve_neg()
        return t if t.is_contiguous() else _in_rows(t)

    return pytree.tree_map_only(Tensor, one, pytree.tree_map_only(np.ndarray, torch.from_numpy, value))


# -- the graph -----------------------------------------------------------------------------------------


@functools.cache
def _table() -> dict[Any, Callable[..., Any]]:
    """What torch defines by other operators, what dlc does, and what torch.compile leaves to the library."""
    table = {op: _get_decomp_for_cia(op) for op in _collect_all_valid_cia_ops()}
    return table | decompositions() | alone()


_ASSERTED = ("_assert_tensor_metadata", "sym_constrain_range", "sym_constrain_range_for_size")


def _without_asserts(gm: torch.fx.GraphModule) -> None:
    """Sizes and dtypes are compared by the program itself; those of data are left, and refused."""
    for node in reversed(gm.graph.nodes):
        name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
        known = name in _ASSERTED
        if name == "_assert_scalar":
            value = node.args[0].meta.get("val") if isinstance(node.args[0], torch.fx.Node) else None
            known = value is None or not free_unbacked_symbols(value)
        if known and not node.users:
            gm.graph.erase_node(node)
    gm.graph.eliminate_dead_code()
    gm.recompile()


#: One thread traces at a time: torch's modes and its registry, which is changed here, are of the process.
_TRACES = threading.RLock()


@contextlib.contextmanager
def _without_checks() -> Iterator[None]:
    """Whether a matrix is singular is not asked: the check would be an effect, which stays in its order."""
    name = "aten::_linalg_check_errors"
    with _TRACES:
        before = _get_effect(name)
        _register_effectful_op(name, None)
        try:
            yield
        finally:
            _register_effectful_op(name, before)


def _export(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> Any:
    with _TRACES, torch.no_grad():
        with LaidAsEager(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*treespec, LeafSpec", FutureWarning)  # torch's own use of it
            exported = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
        refuse_places(exported, pytree.tree_leaves((args, kwargs)))
        with _without_checks():
            return exported.run_decompositions(_table())


def _place(source: str | None) -> str:
    return source or "source unknown"


def _refuse_calls(parts: dict[str, Any]) -> None:
    """Everything that cannot leave torch, at once."""
    rows = [
        f"  {name if isinstance(name, str) else getattr(target, '__name__', name)} (operator {node}, "
        f"{_place(source)})"
        for name, target, _, _, node, source, _ in ((str(r[1]), *r[1:]) for r in parts["calls"])
    ]
    if rows:
        raise FileError(
            f"it calls {len(rows)} operator{'s' * (len(rows) > 1)} that dlc leaves to torch, so that it "
            "cannot run without torch:\n" + "\n".join(rows)
        )


# -- names ---------------------------------------------------------------------------------------------


_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')


def _with_names(text: str, names: dict[str, str]) -> str:
    """Sizes by the names of torch.export.Dim, where no value has the name; the lines in the text stay."""
    parts = _QUOTED.split(text)
    for old, new in names.items():
        have = any(re.search(rf"\b{new}\b", part) for part in parts[::2])
        if old != new and not have and new.isidentifier() and not keyword.iskeyword(new):
            parts[::2] = [re.sub(rf"\b{old}\b", new, part) for part in parts[::2]]
    return "".join(parts)


def _dim_names(shapes: list[tuple[str, ...]], specs: list[Any]) -> dict[str, str]:
    """By symbol, the user's name; shapes: of the arguments in the program's text."""
    found: dict[str, str] = {}
    for dims, spec in zip(shapes, specs, strict=True):
        items = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
        for axis, dim in items:
            name = getattr(dim, "__name__", None)
            named = isinstance(name, str) and isinstance(dim, type(torch.export.Dim("x")))
            if named and axis < len(dims) and dims[axis].isidentifier():
                found.setdefault(dims[axis], name)
    return found


def _specs(dynamic_shapes: Any, args: tuple[Any, ...], kwargs: dict[str, Any], model: nn.Module) -> list[Any]:
    """By leaf of the arguments, what dynamic_shapes says of it."""
    count = len(pytree.tree_leaves((args, kwargs)))
    if dynamic_shapes is None:
        return [None] * count
    try:
        from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path

        found: list[Any] = []
        bound = _combine_args(model, args, kwargs)
        given = dynamic_shapes
        if not isinstance(given, dict):
            given = dict(zip(bound, given, strict=False))
        elif len(bound) == 1 and "args" in bound and "args" not in given:
            given = {"args": tuple(given.values())}
        _tree_map_with_path(lambda path, leaf, spec: found.append(spec), bound, given)
        return found if len(found) == count else [None] * count
    except Exception:  # names alone depend on it
        return [None] * count


# -- modules and functions of torch --------------------------------------------------------------------


class _Exported:
    """An exported program compiled: its text, and which parameter and result is what."""

    def __init__(self, exported: Any) -> None:
        _without_asserts(exported.graph_module)
        # Two results of one value are that value twice: no copy, which would be a call of torch's.
        gm = CSEPass()(exported.graph_module).graph_module
        report: dict[str, Any] = {}
        options = parse({"products": "own", "strict": True, "tier": "tcc", "cache": False})
        compiled = laid_as_eager(gm, lambda: compile_with(options, gm, None, report=report, inference=True))
        self.exported, parts = exported, _C.parts(compiled)
        _refuse_calls(parts)
        self.text = ir.parse(report["graph"]).run_pass("dead").text
        self.inputs, self.outputs = parts["inputs"], parts["outputs"]

    def param(self, k: int) -> int | None:
        """The program's parameter for input k of the graph; None: it reads nothing of it."""
        kind, index = self.inputs[k][:2]
        if kind in ("size", "scalar"):
            raise FileError(f"argument {k} is a number that changes: pass a tensor")
        return index if kind == "tensor" else None


class _Leaf:
    def __init__(self, node: Node) -> None:
        self.node = node


def _node_of(value: Any, where: str) -> Node:
    return describe(value, lambda v: v.node if isinstance(v, _Leaf) else None, where)


def _input_nodes(model: nn.Module, spec: Any, items: list[_Leaf]) -> tuple[list[tuple[str, Node]], int]:
    args, kwargs = pytree.tree_unflatten(items, spec)
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    params = inspect.signature(model.forward).parameters.values()
    names = [param.name for param in params if param.kind not in starred]
    found = []
    for k, value in enumerate(args):
        name = names[k] if k < len(names) else f"argument{k}"
        found.append((name, _node_of(value, f"argument {name!r}")))
    for name, value in kwargs.items():
        found.append((name, _node_of(value, f"argument {name!r}")))
    return found, len(kwargs)


class _Captured:
    """An exported model on its way to a Model: what each input and output of the graph is."""

    def __init__(self, exported: Any, given: list[Any], weights: bool) -> None:
        """given: the leaves of the arguments; weights: the file has them."""
        self.exported, self.weights_inside = exported, weights
        self.graph = _Exported(exported)
        self.types = [param.type for param in ir.parse(self.graph.text).params]
        self.weights: list[Weight] = []
        self.states: list[State] = []
        self.fixed: dict[int, np.ndarray] = {}
        self.stored: dict[str, np.ndarray] = {}
        self.example: dict[int, np.ndarray] = {}
        self.arguments: list[_Leaf] = []
        self.shapes: list[tuple[str, ...]] = []  # of the arguments, in the text
        self._of_name: dict[str, int] = {}
        self._known: dict[Any, list[str]] = {}
        outputs = exported.graph_signature.output_specs
        self._written = {spec.target for spec in outputs if spec.kind is OutputKind.BUFFER_MUTATION}
        for k, spec in enumerate(exported.graph_signature.input_specs):
            at = self.graph.param(k) if isinstance(spec.arg, TensorArgument) else None
            if spec.kind is InputKind.USER_INPUT:
                self._argument(spec, at, given[len(self.arguments)])
            else:
                self._tensor(spec.target, at, spec.kind)
        self.outputs = self._outputs(outputs)

    def _argument(self, spec: Any, at: int | None, value: Any) -> None:
        shape: tuple[str, ...] = ()
        if isinstance(spec.arg, ConstantArgument) or not isinstance(value, Tensor):
            node = _value(value)
        elif at is None:
            node = {"unread": str(list(value.shape))}
        else:
            node, shape = {"array": at}, tuple(_dims(self.types[at]))
            self._of_name[spec.arg.name] = at
            self.example[at] = _of_tensor(value)
        self.arguments.append(_Leaf(node))
        self.shapes.append(shape)

    def _tensor(self, name: str, at: int | None, kind: InputKind) -> None:
        """A parameter, a buffer or a constant of the model."""
        tensor = self.exported.state_dict.get(name)
        own = tensor is not None and not self.weights_inside and kind is not InputKind.CONSTANT_TENSOR
        tensor = self.exported.constants[name] if tensor is None else tensor
        if name in self._written:
            if at is None:
                raise FileError(f"the state {name!r} is written and never read")
            self.states.append(State(name, at, -1, True))
            self.stored[name] = _of_tensor(tensor).copy()
        elif at is not None:
            if not tensor.is_contiguous():
                raise FileError(
                    f"the tensor {name!r} is not in rows, and none of the model's: give x.contiguous()"
                )
            same = _memory(tensor) if tensor.numel() else name
            names = self._known.setdefault(same, [name])  # one array for weights that are one tensor
            if own and name not in names:
                names.append(name)  # the user's file may have it by another name
            self.weights.append(Weight(at, names, own))
            self.fixed[at] = _of_tensor(tensor)

    def _node(self, k: int) -> Node:
        kind, index, value = self.graph.outputs[k]
        if kind == "object":
            return _value(value)
        if kind != "input":
            return {"array": index}
        at = self.graph.param(index)
        if at is None:
            raise FileError(
                "it returns an argument unchanged that it does not read: leave that to the caller"
            )
        return {"input": at}

    def _outputs(self, specs: list[Any]) -> list[_Leaf]:
        found, stored = [], {state.name: state for state in self.states}
        for k, spec in enumerate(specs):
            node = self._node(k)
            if spec.kind is OutputKind.USER_OUTPUT:
                found.append(_Leaf(node))
                continue
            if spec.kind not in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
                raise FileError(f"it gives a {spec.kind.name.lower()}, which has no form in a file")
            if "array" not in node:
                raise FileError(f"the state {spec.target!r} becomes another tensor that there is")
            if spec.kind is OutputKind.BUFFER_MUTATION:
                stored[spec.target].result = node["array"]
            else:
                self.states.append(State(spec.target, self._of_name[spec.target], node["array"], False))
        return found


def _memory(tensor: Tensor) -> Any:
    """The same for tensors that are one: the same elements of the same memory, in the same order."""
    bits = tensor.is_conj(), tensor.is_neg()
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype, bits


def of_model(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, weights: bool
) -> Model:
    """A module of torch's as a model of a file; its program reads all it needs as parameters."""
    name = type(model).__name__ if not isinstance(model, _Function) else model.forward.__name__
    model = _dense(model)
    args, kwargs = _rows(args), _rows(kwargs)
    exported = _export(model, args, kwargs, dynamic_shapes)
    found = _Captured(exported, pytree.tree_leaves((args, kwargs)), weights)
    inputs, keywords = _input_nodes(model, exported.call_spec.in_spec, found.arguments)
    output = _node_of(pytree.tree_unflatten(found.outputs, exported.call_spec.out_spec), "its result")
    if any(state.stored for state in found.states) and "state" in dict(inputs):
        raise FileError("it writes to buffers and has an argument 'state', the name by which these are given")
    specs = _specs(dynamic_shapes, args, kwargs, model)
    text = _with_names(found.graph.text, _dim_names(found.shapes, specs))
    example = {str(at): f"dlc.example.{at}" for at in found.example}
    name = name if name.isidentifier() else "model"
    about = Signature(name, inputs, keywords, output, found.weights, found.states, example)
    return _made(text, about, found.fixed, found.stored, found.example)


def _made(
    text: str,
    signature: Signature,
    fixed: dict[int, np.ndarray],
    states: dict[str, np.ndarray],
    example: dict[int, np.ndarray],
) -> Model:
    return Model(ir.parse(text), signature, fixed, states, example, {"dlc.format": str(FORMAT)}, "tcc")


def _value(value: Any) -> Node:
    """Of what is part of the program."""
    return describe(value, lambda v: None, "it")


# -- programs and kernels ------------------------------------------------------------------------------


def of_program(text: str, args: Any, names: list[str] | None = None) -> Model:
    """A program of the graph stage: its parameters in order are the arguments."""
    function = ir.parse(text)
    params = [param.name for param in function.params]
    inputs: list[tuple[str, Node]] = [(name, {"array": k}) for k, name in enumerate(names or params)]
    results: list[Node] = [{"array": k} for k in range(len(function.results))]
    output: Node = results[0] if len(results) == 1 else {"tuple": results}
    arrays = {k: np.asarray(_of_tensor(a) if isinstance(a, Tensor) else a) for k, a in enumerate(args or ())}
    if arrays and len(arrays) != len(params):
        raise TypeError(f"{function.name} takes {len(params)} arguments, not {len(arrays)}")
    example = {str(k): f"dlc.example.{k}" for k in arrays}
    return _made(text, Signature(function.name, inputs, 0, output, example=example), {}, {}, arrays)


def of_kernel(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Model:
    given = _rows(kernel._bind(args, kwargs))
    text = kernel.program(*(tensor.dtype for tensor in given))
    return of_program(text, given, list(kernel.names))


# -- dlc.save ------------------------------------------------------------------------------------------


def _model_of(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, weights: bool
) -> Model:
    if isinstance(model, _C.Jit):
        model = model.__wrapped__
    if isinstance(model, (ir.Function, Kernel)) and dynamic_shapes is not None:
        raise TypeError("dynamic_shapes is for modules and functions: a program declares its sizes")
    if isinstance(model, ir.Function):
        return of_program(model.text, args)
    if isinstance(model, Kernel):
        return of_kernel(model, args, kwargs)
    if not isinstance(model, nn.Module):
        model = getattr(model, "_torchdynamo_orig_callable", model)
    model = getattr(model, "_orig_mod", model)  # what torch.compile makes of a module
    if not callable(model):
        raise TypeError(
            f"dlc.save takes a module, a function, a kernel or a program, not a {type(model).__name__}"
        )
    if not isinstance(model, nn.Module):
        arrays = any(isinstance(a, np.ndarray) for a in pytree.tree_leaves((args, kwargs)))
        if arrays and kwargs:
            raise TypeError("a function of NumPy arrays is saved with its arguments by position, in args")
        model = _Function(_of_arrays(model) if arrays else model)
    return of_model(model, args, kwargs, dynamic_shapes, weights)


def save(
    model: Any,
    path: Any,
    args: Any,
    kwargs: dict[str, Any] | None,
    dynamic_shapes: Any,
    weights: bool,
    check: bool,
) -> None:
    as_onnx = is_onnx(path)
    if as_onnx and not weights:
        raise TypeError("weights=False is for files of dlc's: one of ONNX holds its weights")
    if args is not None and not isinstance(args, (tuple, list)):
        raise TypeError(f"args is a tuple of the arguments, not a {type(args).__name__}: (x,) is one of x")
    try:
        made = _model_of(model, tuple(args or ()), kwargs or {}, dynamic_shapes, weights)
    except FileError as error:
        raise FileError(f"dlc cannot save the model: {error}") from None
    if as_onnx:
        made.save(path)
        return
    if check and (made._example or not made._free):
        made.remember()
    else:
        made._example.clear()
        made._signature.example.clear()
    made._write(path, made._signature)
