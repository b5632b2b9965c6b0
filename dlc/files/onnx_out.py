"""Model.save to a file of ONNX: _C.onnx_graph translates the program, the onnx package writes and checks it.

Nothing here imports torch.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _C
from . import FileError
from .onnx_package import BF16, DTYPES, OTHER_BITS, line, package
from .tensors import bytes_of

if TYPE_CHECKING:
    import onnx

    from .model import Model

#: What is written: any runtime since 2022 reads it.
OPSET, IR_VERSION = 18, 8
#: Protobuf has room for 2 GB; weights of more bytes than this are in a file beside the model's.
MOST = 2**31 - 2**26
#: By dtype, ONNX's number for it: not those of types whose elements dlc computes in this one.
_NUMBERS = {name: number for number, name in DTYPES.items() if number not in OTHER_BITS} | {"bf16": BF16}


def operations() -> list[str]:
    """The operations of the language that ONNX has."""
    return list(_C.onnx_has())


class _Names:
    """Names of values, each once in the whole model."""

    def __init__(self) -> None:
        self.taken: dict[str, int] = {"": 0}

    def new(self, stem: str) -> str:
        name = stem
        while name in self.taken:
            self.taken[stem] = self.taken.get(stem, 0) + 1
            name = f"{stem}_{self.taken[stem]}"
        self.taken[name] = 0
        return name


def _outputs(node: dict[str, Any], name: str) -> Iterator[tuple[str, str, int]]:
    """(name or "", kind, number) of the arrays of a result, in order."""
    ((kind, content),) = node.items()
    if kind in ("array", "input"):
        yield name, kind, content
    elif kind in ("tuple", "list"):
        for item in content:
            yield from _outputs(item, "")
    elif kind == "dict":
        for key, item in content.items():
            yield from _outputs(item, key)


class _Writer:
    """A program as a ModelProto."""

    def __init__(self, model: Model) -> None:
        self.onnx, self.model = package(), model
        try:
            self.values, constants, graph = _C.onnx_graph(model.text)
        except (_C.CaptureError, _C.InternalError) as error:
            raise FileError(str(error)) from None
        self.all, self.named = _Names(), dict[int, str]()
        self.params = range(len(model._function.params))
        self.name_weights()
        nodes, inputs, outputs = graph
        listed = self.listed_outputs(outputs)
        made = self.nodes(nodes)
        ends = []
        for number, name in listed:  # one that is there twice, and an input, is a node's here
            if self.named[number] != name:
                made.append(self.onnx.helper.make_node("Identity", [self.named[number]], [name]))
            ends.append(self.info(number, name))
        starts = [self.info(number) for number in inputs if number not in model._fixed]
        given = {k for kind, k in ((kind, k) for _, kind, k in self.results()) if kind == "input"}
        tensors = [
            self.weight(number) for number in model._fixed if self.values[number][3] or number in given
        ]
        tensors += [self.constant(number, elements) for number, elements in constants]
        name = re.sub(r"\W", "_", model._signature.name, flags=re.ASCII) or "model"
        from .. import __version__

        self.proto = self.onnx.helper.make_model(
            self.onnx.helper.make_graph(made, name, starts, ends, tensors),
            opset_imports=[self.onnx.helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="dlc",
            producer_version=__version__,
        )

    # -- names

    def name_weights(self) -> None:
        """Inputs have the names of the arguments, and weights those of their arrays."""
        signature, weights = self.model._signature, {}
        for name, node in signature.inputs:
            if "array" in node:
                weights[node["array"]] = name
        weights |= {state.param: state.name for state in signature.states if state.stored}
        weights |= {weight.param: weight.names[0] for weight in signature.weights}
        for number in sorted(self.params, key=lambda k: k in self.model._fixed):
            self.named[number] = self.all.new(weights.get(number, self.values[number][0]))

    def results(self) -> list[tuple[str, str, int]]:
        signature = self.model._signature
        found = list(_outputs(signature.output, ""))
        return found + [(f"{state.name}_new", "array", state.result) for state in signature.states]

    def listed_outputs(self, outputs: list[int]) -> list[tuple[int, str]]:
        """The number and the name of each output."""
        listed = []
        for name, kind, k in self.results():
            number = outputs[k] if kind == "array" else k
            stem = name or (self.values[number][0] if kind == "array" else f"{self.named[number]}_out")
            listed.append((number, self.all.new(stem)))
            self.named.setdefault(number, listed[-1][1])
        return listed

    def name(self, number: int) -> str:
        if number < 0:
            return ""
        if number not in self.named:
            self.named[number] = self.all.new(self.values[number][0])
        return self.named[number]

    # -- parts

    def info(self, number: int, name: str = "") -> onnx.ValueInfoProto:
        _, dtype, dims, _ = self.values[number]
        if dtype not in _NUMBERS:
            raise FileError(f"{self.name(number)!r:.60} is of {dtype}, which ONNX lacks")
        return self.onnx.helper.make_tensor_value_info(name or self.name(number), _NUMBERS[dtype], dims)

    def weight(self, number: int) -> onnx.TensorProto:
        array, dtype = self.model._fixed[number], self.values[number][1]
        if dtype not in _NUMBERS:
            raise FileError(f"the weight {self.name(number)!r:.60} is of {dtype}, which ONNX lacks")
        made = self.onnx.TensorProto(
            name=self.name(number), data_type=_NUMBERS[dtype], dims=[int(n) for n in array.shape]
        )
        made.raw_data = bytes(bytes_of(np.ascontiguousarray(array)))
        return made

    def constant(self, number: int, elements: list[Any]) -> onnx.TensorProto:
        _, dtype, dims, _ = self.values[number]
        return self.onnx.helper.make_tensor(self.name(number), _NUMBERS[dtype], dims, elements)

    def nodes(self, rows: list[Any]) -> list[onnx.NodeProto]:
        return [self.node(*row) for row in rows]

    def node(
        self, op: str, inputs: list[int], outputs: list[int], attrs: list[Any], bodies: list[Any]
    ) -> onnx.NodeProto:
        ins, outs = [self.name(k) for k in inputs], [self.name(k) for k in outputs]
        keys = ("then_branch", "else_branch") if len(bodies) == 2 else ("body",)
        graphs = {key: self.body(op, *body) for key, body in zip(keys, bodies, strict=False)}
        return self.onnx.helper.make_node(op, ins, outs, outs[0], **dict(attrs), **graphs)

    def body(self, op: str, nodes: list[Any], inputs: list[int], outputs: list[int]) -> onnx.GraphProto:
        starts = [self.info(k) for k in inputs]
        made = self.nodes(nodes)
        ends = []
        for k in outputs:  # one that is there twice
            name = self.name(k)
            if any(end.name == name for end in ends):
                made.append(self.onnx.helper.make_node("Identity", [name], [self.all.new(name)]))
                name = made[-1].output[0]
            ends.append(self.info(k, name))
        return self.onnx.helper.make_graph(made, self.all.new(op.lower()), starts, ends)


def _check(onnx: Any, path: str) -> None:
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as error:  # the checker's
        raise FileError(f"the onnx package does not accept what dlc wrote: {line(error)}") from None


def save(model: Model, path: Any, most: int = MOST) -> None:
    """Writes a model as ONNX, checked; weights of more than `most` bytes go to a file beside it.

    Raises FileError with all operations that ONNX lacks, each with its line of the program and of the user's
    source, OSError where the file cannot be written, ImportError without the onnx package.
    """
    onnx = package()
    place = Path(os.path.realpath(path))
    try:
        proto = _Writer(model).proto
        apart = sum(len(tensor.raw_data) for tensor in proto.graph.initializer) > most
        folder = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}."))
        try:
            data = f"{place.name}.data"
            more = {"save_as_external_data": True, "location": data, "size_threshold": 1024}
            onnx.save_model(proto, str(folder / place.name), **(more if apart else {}))
            _check(onnx, str(folder / place.name))
            for name in ([data] if apart else []) + [place.name]:
                with open(folder / name, "rb") as file:
                    os.fsync(file.fileno())
                os.replace(folder / name, place.parent / name)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except FileError as error:
        raise FileError(f"dlc cannot save {os.fspath(path)!r} as ONNX: {error}") from None
