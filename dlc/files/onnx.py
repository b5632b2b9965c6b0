"""dlc.load of a file of ONNX: the onnx package reads and checks it, and _C.onnx translates its graph.

Nothing here imports torch.
"""

from __future__ import annotations

import mmap
import operator
import os
import re
import stat
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _C, ir
from . import FileError, onnx_kept
from .model import Model
from .onnx_package import BF16, DTYPES, OTHER_BITS, PACKED, line, package
from .signature import Node, Signature, Weight
from .tensors import digest

if TYPE_CHECKING:
    import onnx

#: The versions of ONNX's operators that are read.
OLDEST, NEWEST = 7, 28
#: Up to so many elements, the values of a weight are looked at where they decide a size.
_INTS, _FLOATS = 4096, 64
_LARGE = 1 << 16  # bytes of a weight whose elements decide no type
_MOST_DEPTH = 32  # graphs in graphs
Size = int | str
_Wanted = int | tuple[int, int | None]


def operators() -> list[tuple[str, int]]:
    """The operators that are compiled, each with the first version that a row of the table is for."""
    return [(op, since) for op, since in _C.onnx_operators()]


def _bound(name: str, wanted: Any) -> tuple[int, int | None] | int:
    """What dlc.load(.., sizes={name: wanted}) means: a number, or the least and the most."""
    try:
        low, high = wanted if isinstance(wanted, (tuple, list)) else (wanted, wanted)
        low, high = operator.index(low), None if high is None else operator.index(high)
    except (TypeError, ValueError):
        raise TypeError(
            f"sizes: {name!r} is {wanted!r}, but it takes a number, or a least and a most: (1, None)"
        ) from None
    if not 0 <= low < 2**62 or not (high is None or low <= high < 2**62):
        raise FileError(f"sizes: {name!r} is {wanted!r}: the least, at least 0, comes before the most")
    return low if low == high else (low, high)


# -- reading -------------------------------------------------------------------------------------------


def _read(path: str, data: bytes) -> onnx.ModelProto:
    """The model of a file of these bytes, checked, without the arrays that are in files of their own."""
    onnx = package()
    try:
        model = onnx.load_model_from_string(data)
        onnx.checker.check_model(path)
    except OSError:
        raise
    except Exception as error:  # protobuf's, the checker's: whatever is wrong with the bytes
        raise FileError(f"it is no valid file of ONNX: {line(error)}") from None
    if field := _no_text(model):
        raise FileError(f"it is no valid file of ONNX: {field} is no UTF-8")
    return model


def _no_text(message: Any) -> str:
    """A field of text that is none, or "": protobuf reads such a field as bytes, and says nothing."""
    for field, value in message.ListFields():
        kind = field.type
        if kind == field.TYPE_STRING and not isinstance(value, str):
            if isinstance(value, bytes) or any(isinstance(text, bytes) for text in value):
                return f"{message.DESCRIPTOR.name}.{field.name}"
        elif kind == field.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                if found := _no_text(inner):
                    return found
    return ""


def _renewed(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model of operators older than those that are read, of newer ones."""
    onnx = package()
    version = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), NEWEST)
    if version >= OLDEST:
        return model
    try:
        return onnx.version_converter.convert_version(model, 13)
    except Exception as error:
        raise FileError(
            f"its operators are of opset {version}, and cannot be converted: {line(error)}"
        ) from None


def _versions(model: onnx.ModelProto) -> dict[str, int]:
    found = {entry.domain: entry.version for entry in model.opset_import}
    if "" not in found and "ai.onnx" in found:
        found[""] = found["ai.onnx"]
    version = found.get("", NEWEST)
    if version > NEWEST:
        raise FileError(
            f"its operators are of opset {version}, and dlc reads up to {NEWEST}: "
            f"onnx.version_converter.convert_version(model, {NEWEST}) makes older ones of them"
        )
    return found


def _each_graph(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph, and those of its attributes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _each_graph(attribute.g)


def _schema(node: onnx.NodeProto, versions: Mapping[str, int]) -> Any:
    """None: ONNX has no such operator, or it has a row."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    return _known_schema(node.op_type, domain, versions.get(domain, 1))


@lru_cache(1024)
def _known_schema(op: str, domain: str, version: int) -> Any:
    onnx = package()
    if not onnx.defs.has(op, domain):
        return None
    try:
        return onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return None


def _with_defaults(model: onnx.ModelProto, own: set[str]) -> None:
    """Attributes that an operator has by default are written out: the inliner drops those left out."""
    versions = _versions(model)
    for graph in _each_graph(model.graph):
        for node in graph.node:
            schema = _schema(node, versions)
            if schema is None or (node.domain in ("", "ai.onnx") and node.op_type in own):
                continue
            given = {attribute.name for attribute in node.attribute}
            for name, attribute in schema.attributes.items():
                if name not in given and attribute.default_value.name:
                    node.attribute.append(attribute.default_value)


def _with_bodies(model: onnx.ModelProto, own: set[str]) -> bool:
    """Operators with an input left out become functions of the model: the inliner takes no such node
    of an operator whose definition follows from types.  True: there is one."""
    onnx = package()
    versions, found = _versions(model), False
    types = {value.name: value.type for value in (*model.graph.input, *model.graph.value_info)}
    for tensor in model.graph.initializer:
        types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    for node in model.graph.node:
        schema = _schema(node, versions)
        if (
            schema is None
            or node.op_type in own
            or "" not in node.input
            or not schema.has_context_dependent_function
        ):
            continue
        given = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
        made = onnx.FunctionProto()
        text = schema.get_context_dependent_function_with_opset_version(
            schema.since_version, node.SerializeToString(), given
        )
        made.ParseFromString(text)
        if not made.node:
            continue
        made.name, made.domain = f"{node.op_type}_{len(model.functions)}", "dlc.bodies"
        del made.attribute[:], made.attribute_proto[:]
        model.functions.append(made)
        node.op_type, node.domain, found = made.name, made.domain, True
        del node.attribute[:]
    if found and not any(entry.domain == "dlc.bodies" for entry in model.opset_import):
        model.opset_import.add(domain="dlc.bodies", version=1)
    return found


def _each_node(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Those of the graph, of functions, and of the graphs in their attributes."""
    for graph in _each_graph(model.graph):
        yield from graph.node
    for function in model.functions:
        for node in function.node:
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    for graph in _each_graph(attribute.g):
                        yield from graph.node


def _with_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the types of its values.

    The package's inference for GatherND reads outside of a shape, and may end the process, if `batch_dims` or
    the last size of the indices is below 0; that size may follow from other nodes. A Reshape to an unknown
    shape is in its place while types are inferred: its result has the same element type, and any shape.
    """
    onnx = package()
    hidden: dict[int, onnx.NodeProto] = {}
    for number, node in enumerate(_each_node(model)):
        if node.op_type == "GatherND" and len(node.input) == 2:
            hidden[number] = onnx.NodeProto.FromString(node.SerializeToString())
            node.op_type = "Reshape"
            node.input[1] = "no such value"
            del node.attribute[:]
    try:
        typed = onnx.shape_inference.infer_shapes(model)
    except Exception as error:
        raise FileError(f"its shapes do not fit together: {line(error)}") from None
    for number, node in enumerate(_each_node(typed)):
        if number in hidden:
            node.CopyFrom(hidden[number])
    return typed


def _without_large(model: onnx.ModelProto) -> dict[str, bytes]:
    """Takes the bytes of large weights away: each step of the package copies a model several times.

    No type depends on them: the package reads the elements of small tensors alone.
    """
    large = {}
    for tensor in model.graph.initializer:
        if tensor.HasField("raw_data") and len(tensor.raw_data) > _LARGE:
            large[tensor.name] = tensor.raw_data
            tensor.ClearField("raw_data")
    return large


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with operators that ONNX defines by others in their place, but for those that dlc has."""
    onnx = package()
    own = {op for op, _ in operators() if "." not in op}
    kept = [("", op) for op in sorted(own)]
    more, large = True, _without_large(model)
    for _ in range(_MOST_DEPTH):  # definitions in definitions
        if not more:
            break
        _with_defaults(model, own)
        model = _with_types(model)  # which definition an operator has may depend on those of its operands
        try:
            more = _with_bodies(model, own)
            inline = onnx.inliner.inline_local_functions if more else onnx.inliner.inline_selected_functions
            words = () if more else (kept,)
            options = {} if more else {"exclude": True, "inline_schema_functions": True}
            model = inline(model, *words, **options)
        except Exception as error:
            raise FileError(f"its functions cannot be put in place: {line(error)}") from None
    for tensor in model.graph.initializer:
        if tensor.name in large:
            tensor.raw_data = large[tensor.name]
    return model


def _dtype(number: int, what: str) -> str:
    onnx = package()
    if number not in DTYPES:
        known = number in onnx.TensorProto.DataType.values()
        name = onnx.TensorProto.DataType.Name(number).lower() if known else str(number)
        raise FileError(f"{what} has the element type {name}, which dlc lacks")
    return DTYPES[number]


class _Graph:
    """A graph as plain data: values have numbers."""

    def __init__(
        self,
        model: onnx.ModelProto,
        folder: str,
        constants: Mapping[str, Any],
        sizes: Mapping[str, _Wanted],
    ) -> None:
        self.onnx, self.folder, self.given = package(), folder, dict(constants)
        self.versions = _versions(model)
        self.names: list[str] = []
        self.kinds: list[int] = []  # by number: ONNX's element types, 0: not known
        self.types: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        self.depth = 0  # graphs around the one that is read
        self.sizes: dict[str, tuple[int, int]] = {}
        self.size_names: dict[str, Size] = {}
        self.wanted_sizes = {name: _bound(name, wanted) for name, wanted in sizes.items()}
        self.inputs: list[tuple[int, str, list[Size]]] = []
        self.weights: list[tuple[int, str, list[Size], list[Any] | None]] = []
        self.arrays: dict[int, np.ndarray] = {}
        self.outside: list[onnx_kept.Outside] = []
        graph = model.graph
        self.take_types(graph)
        dims = [dim for value in graph.input for dim in value.type.tensor_type.shape.dim]
        self.dim_names = {dim.dim_param for dim in dims}
        for tensor in graph.initializer:
            if tensor.name not in self.given:
                self.weight(tensor.name, self.tensor(tensor), tensor.data_type)
        if graph.sparse_initializer:
            raise FileError("it has sparse weights, which dlc lacks")
        for value in graph.input:
            if value.name not in self.numbers:
                self.input(value)
        self.nodes = self.nodes_of(graph)
        self.outputs = [self.number(value.name) for value in graph.output]
        self.output_names = [value.name for value in graph.output]
        if unknown := [name for name in self.given if name not in self.numbers]:
            raise FileError(f"constants: it has no input {unknown[0]!r}")
        if unknown := [name for name in self.wanted_sizes if name not in self.size_names]:
            known = ", ".join(self.size_names) or "none"
            raise FileError(f"sizes: it has no size {unknown[0]!r}, but {known}")

    def take_types(self, graph: onnx.GraphProto) -> None:
        for value in (*graph.input, *graph.value_info, *graph.output):
            if value.type.HasField("tensor_type"):
                self.types[value.name] = value.type.tensor_type.elem_type

    def number(self, name: str) -> int:
        if not name:
            return -1
        if name not in self.numbers:
            self.numbers[name] = len(self.names)
            self.names.append(f"{name}_{len(self.names)}" if self.depth else name)
            self.kinds.append(self.types.get(name, 0))
        return self.numbers[name]

    def defined(self, name: str) -> int:
        """The number of a new value: in a graph that is an attribute, it may hide another."""
        if self.depth:
            self.numbers.pop(name, None)
        return self.number(name)

    def tensor(self, tensor: onnx.TensorProto) -> np.ndarray:
        """By the package's rules: external data is in the model's folder, or it is an error."""
        _dtype(tensor.data_type, f"the weight {tensor.name!r:.60}")
        try:
            array = self.onnx.numpy_helper.to_array(tensor, self.folder)
        except Exception as error:
            raise FileError(f"the weight {tensor.name!r:.60} cannot be read: {line(error)}") from None
        if tensor.data_type in OTHER_BITS:
            array = array.view(ir._NUMPY[DTYPES[tensor.data_type]])
        array = np.ascontiguousarray(array).reshape(array.shape)
        if tensor.data_location == tensor.EXTERNAL:
            rows = {entry.key: entry.value for entry in tensor.external_data}
            place = rows.get("location", ""), int(rows.get("offset") or 0)
            self.outside.append(onnx_kept.Outside(array, None if tensor.data_type in PACKED else place))
        return array

    def weight(self, name: str, array: np.ndarray, number: int) -> None:
        at, whole = self.number(name), array.dtype.kind in "iub" and number != BF16
        self.kinds[at] = number
        elements = None
        if number == BF16 and array.size <= _FLOATS:
            wide = (array.astype(np.uint32) << 16).view(np.float32)
            elements = [float(x) for x in wide.flat]
        if array.size <= (_INTS if whole else _FLOATS) and array.dtype.kind in "iubf" and number != BF16:
            elements = [int(x) for x in array.flat] if whole else [float(x) for x in array.flat]
        self.arrays[at] = array
        self.weights.append((at, _dtype(number, name), list(array.shape), elements))

    def size(self, dim: Any, name: str) -> Size:
        """A dimension of an input as a number or a name of the language; some write -1 for any number."""
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            return int(dim.dim_value)
        while not dim.dim_param and name in self.dim_names:
            name += "_"  # another dimension is called so
        given = dim.dim_param or name
        if given not in self.size_names:
            wanted = self.wanted_sizes.get(given, (1, None))
            if isinstance(wanted, int):
                self.size_names[given] = wanted
                return wanted
            stem = re.sub(r"\W", "_", given, flags=re.ASCII)
            stem = stem if re.match(r"[A-Za-z]", stem) else f"N{stem}"
            word, k = stem, 0
            while word in self.sizes:
                word, k = f"{stem}_{k}", k + 1
            low, high = wanted
            self.sizes[word] = (low, -1 if high is None else high)
            self.size_names[given] = word
        return self.size_names[given]

    def input(self, value: onnx.ValueInfoProto) -> None:
        if value.name in self.given:
            return self.constant(value)
        if not value.type.HasField("tensor_type"):
            raise FileError(f"its input {value.name!r:.60} is no tensor, and dlc has nothing else")
        kind = value.type.tensor_type
        if not kind.HasField("shape"):
            raise FileError(f"its input {value.name!r:.60} has no shape")
        what = f"its input {value.name!r:.60}"
        sizes = [self.size(dim, f"{value.name}_{k}") for k, dim in enumerate(kind.shape.dim)]
        self.inputs.append((self.number(value.name), _dtype(kind.elem_type, what), sizes))
        return None

    def constant(self, value: onnx.ValueInfoProto) -> None:
        kind = value.type.tensor_type
        dtype = np.dtype(ir._NUMPY[_dtype(kind.elem_type, f"its input {value.name!r:.60}")])
        array = np.asarray(self.given[value.name])
        if not array.size:
            array = array.astype(dtype)  # an empty list has a dtype by chance
        whole = array.dtype.kind in "iub" and dtype.kind in "iub" and kind.elem_type != BF16
        if not whole and not np.can_cast(
            array.dtype, dtype, "equiv" if kind.elem_type == BF16 else "same_kind"
        ):
            raise FileError(f"constants: {value.name!r:.60} is of {array.dtype}, and the input of {dtype}")
        sizes = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim]
        fits = len(sizes) == array.ndim and all(
            size < 0 or size == n for size, n in zip(sizes, array.shape, strict=True)
        )
        if kind.HasField("shape") and not fits:
            wanted = str(tuple(sizes)).replace("-1", "any")
            raise FileError(
                f"constants: {value.name!r:.60} has the shape {array.shape}, and the input {wanted}"
            )
        made = array.astype(dtype)
        if whole and not (made == array).all():
            raise FileError(f"constants: {value.name!r:.60} has a number that is too large for {dtype}")
        self.weight(value.name, made, kind.elem_type)

    def nodes_of(self, graph: onnx.GraphProto) -> list[tuple[Any, ...]]:
        nodes = []
        for node in graph.node:
            if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
                self.constant_node(node)
                continue
            domain = "" if node.domain == "ai.onnx" else node.domain
            version = self.versions.get(domain, 1)
            attributes = [pair for a in node.attribute for pair in self.attribute(a)]
            inputs = [self.number(name) for name in node.input]
            outputs = [self.defined(name) for name in node.output]
            nodes.append((node.op_type, domain, version, node.name, inputs, outputs, attributes))
        return nodes

    def body(self, graph: onnx.GraphProto) -> tuple[Any, ...]:
        """A graph that is an attribute: (inputs, nodes, outputs).  It sees the names around it."""
        around, self.numbers, self.depth = self.numbers, dict(self.numbers), self.depth + 1
        types, self.types = self.types, dict(self.types)
        self.take_types(graph)
        if self.depth > _MOST_DEPTH:
            raise FileError(f"it has graphs in graphs, more than {_MOST_DEPTH} of them")
        if graph.sparse_initializer:
            raise FileError("it has sparse weights, which dlc lacks")
        for tensor in graph.initializer:
            self.defined(tensor.name)
            self.weight(tensor.name, self.tensor(tensor), tensor.data_type)
        given = {tensor.name for tensor in graph.initializer}
        inputs = [self.defined(value.name) for value in graph.input if value.name not in given]
        nodes = self.nodes_of(graph)
        outputs = [self.number(value.name) for value in graph.output]
        self.numbers, self.types, self.depth = around, types, self.depth - 1
        return inputs, nodes, outputs

    def constant_node(self, node: onnx.NodeProto) -> None:
        if len(node.attribute) != 1 or len(node.output) != 1:
            raise FileError(f"its constant {node.name!r:.60} has not one attribute and one output")
        a = node.attribute[0]
        kinds = {"value_int": (np.int64, 7), "value_ints": (np.int64, 7), "value_float": (np.float32, 1)}
        kinds["value_floats"] = (np.float32, 1)
        name = node.output[0]
        self.defined(name)
        if a.name == "value":
            self.weight(name, self.tensor(a.t), a.t.data_type)
        elif a.name in kinds:
            dtype, number = kinds[a.name]
            self.weight(name, np.asarray(self.onnx.helper.get_attribute_value(a), dtype), number)
        else:
            raise FileError(
                f"its constant {name!r:.60} is a {a.name.removeprefix('value_')}, which dlc lacks"
            )

    def attribute(self, a: onnx.AttributeProto) -> list[tuple[str, Any]]:
        kind = a.type
        names = self.onnx.AttributeProto
        if kind == names.STRING:
            return [(a.name, a.s.decode("utf-8", "replace"))]
        if kind in (names.INT, names.FLOAT):
            return [(a.name, [self.onnx.helper.get_attribute_value(a)])]
        if kind == names.INTS:
            return [(a.name, list(a.ints))]
        if kind == names.FLOATS:
            return [(a.name, list(a.floats))]
        if kind == names.TENSOR:
            array = self.tensor(a.t)
            if array.size > _INTS or array.dtype.kind not in "iubf" or a.t.data_type == BF16:
                return []
            return [(a.name, array.reshape(-1).tolist()), (f"{a.name} dtype", [a.t.data_type])]
        if kind == names.STRINGS and a.strings:
            return [(a.name, tuple(text.decode("utf-8", "replace") for text in a.strings))]
        if kind == names.GRAPH:
            return [(a.name, self.body(a.g))]
        return []  # an operator that has such attributes has no row


# -- the model -----------------------------------------------------------------------------------------


def _signature(graph: _Graph, name: str, outputs: list[tuple[str, int]]) -> Signature:
    inputs: list[tuple[str, Node]] = [
        (graph.names[number], {"array": k}) for k, (number, _, _) in enumerate(graph.inputs)
    ]
    made: list[Node] = [{kind: k} for kind, k in outputs]
    return Signature(name, inputs, 0, made[0] if len(made) == 1 else {"tuple": made})


def _translation(
    model: onnx.ModelProto, folder: str, constants: Mapping[str, Any], sizes: Mapping[str, _Wanted]
) -> tuple[ir.Function, Signature, _Graph, dict[int, np.ndarray]]:
    graph = _Graph(_inlined(_renewed(model)), folder, constants, sizes)
    name = re.sub(r"\W", "_", model.graph.name, flags=re.ASCII)
    name = name if re.match(r"[A-Za-z_]", name) else f"model_{name}".rstrip("_")
    try:
        text, outputs, weights = _C.onnx(
            name,
            graph.names,
            graph.kinds,
            graph.sizes,
            graph.inputs,
            graph.weights,
            graph.nodes,
            graph.outputs,
        )
    except (_C.CaptureError, _C.InternalError, ValueError, TypeError) as error:
        raise FileError(" ".join(str(error).split())) from None
    signature = _signature(graph, name, outputs)
    signature.weights += [Weight(k, [graph.names[number]]) for k, number in weights]
    fixed = {k: graph.arrays[number] for k, number in weights}
    return ir.parse(text, "program"), signature, graph, fixed


def _model(
    function: ir.Function,
    signature: Signature,
    fixed: dict[int, np.ndarray],
    tier: str,
    kept: onnx_kept.Kept | None = None,
) -> Model:
    """kept: where function and arrays come from."""
    from .. import __version__

    producer = {"dlc.format": "1", "producer": f"dlc {__version__}, from ONNX"}
    try:
        return Model(
            function,
            signature,
            fixed,
            {},
            {},
            producer,
            tier,
            release=kept and kept.release,
            origin=kept and kept.origin,
        )
    except MemoryError:
        raise FileError("there is no memory for what it computes of its weights") from None
    except (_C.CaptureError, IndexError) as error:  # a size, or an index into a weight, that is too large
        raise FileError(" ".join(str(error).split())) from None


def translated(
    model: onnx.ModelProto,
    folder: str,
    constants: Mapping[str, Any],
    sizes: Mapping[str, _Wanted],
    tier: str,
) -> Model:
    """A checked model; folder: where its external data is. Raises FileError."""
    function, signature, _, fixed = _translation(model, folder, constants, sizes)
    return _model(function, signature, fixed, tier)


def _loaded(path: str, constants: Mapping[str, Any], sizes: Mapping[str, _Wanted], tier: str) -> Model:
    from ..options import parse

    folder, kept_in = str(Path(path).parent), parse({"tier": tier}).compiler_arguments()["cache"]
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        plain = stat.S_ISREG(status.st_mode) and status.st_size
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if plain else file.read()
    content = digest(data, status, kept_in) if plain else None
    key = onnx_kept.key(content, constants, sizes) if content else None
    kept = onnx_kept.found(key, data, folder, kept_in) if key else None
    if kept is None:
        whole = data if isinstance(data, bytes) else data[:]
        function, signature, graph, fixed = _translation(_read(path, whole), folder, constants, sizes)
        if key:  # what is kept is mapped, and the package's copies are dropped
            texts = function.text, signature.to_json()
            onnx_kept.keep(key, data, *texts, fixed, graph.outside, _INTS, kept_in)
            kept = onnx_kept.found(key, data, folder, kept_in)
    if kept is None:
        return _model(function, signature, fixed, tier)
    function, graph, fixed = ir.parse(kept.text, "program"), None, kept.fixed
    signature = Signature.from_json(kept.signature, len(function.params), len(function.results))
    return _model(function, signature, fixed, tier, kept)


def load(
    path: Any,
    constants: Mapping[str, Any] | None,
    sizes: Mapping[str, _Wanted] | None,
    tier: str,
) -> Model:
    """The model of a file of ONNX, translated, or of what was kept of its translation: see dlc.load."""
    path = os.fspath(path)
    try:
        return _loaded(path, constants or {}, sizes or {}, tier)
    except FileError as error:
        raise FileError(f"dlc cannot load {path!r}: {error}") from None
