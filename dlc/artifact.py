"""Compiled graphs as bytes: text, lists and constants, with a hash. See docs/aot_compile.md."""

from __future__ import annotations

import hashlib
import json
import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule

import dlc

from . import _C, torch_init  # noqa: F401  (before anything is compiled)
from ._C import CaptureError
from .compiler import compile_with
from .layouts import laid_as_eager
from .options import Options, parse

FORMAT = 1
_MAGIC = b"dlc artifact "
# How the walk has a graph's own tensors: the first item of a tuple of one.
_FIRST_ITEM = "operator.itemgetter"
_COMPILE_ERRORS = (CaptureError, _C.InternalError, _C.ParseError)


class ArtifactError(ValueError):
    """Bytes that are not an artifact which this dlc can load, or a graph that cannot be saved."""


# -- tensors -------------------------------------------------------------------------------------------


def _extent(sizes: list[int], strides: list[int]) -> int:
    """Elements from the first to the last one, both counted."""
    if 0 in sizes:
        return 0
    return 1 + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))


class _Writer:
    """The constants of an artifact: a table of what they are, and their bytes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.bytes = bytearray()
        self.known: dict[int, int] = {}

    def add(self, tensor: Tensor) -> int:
        if id(tensor) not in self.known:
            sizes, strides = list(tensor.shape), list(tensor.stride())
            count = _extent(sizes, strides)
            flat = tensor.detach().as_strided((count,), (1,)).clone()
            data = flat.view(torch.uint8).numpy().tobytes() if count else b""
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.rows.append({"dtype": dtype, "sizes": sizes, "strides": strides, "bytes": len(data)})
            self.bytes += data
            self.known[id(tensor)] = len(self.rows) - 1
        return self.known[id(tensor)]


def _named(name: Any, kind: type) -> Any:
    value = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(value, kind):
        raise ArtifactError(f"{name!r} is no {kind.__name__} of torch's")
    return value


def _tensors(rows: list[dict[str, Any]], data: memoryview) -> list[Tensor]:
    tensors, at = [], 0
    for row in rows:
        dtype, sizes, strides = _named(row["dtype"], torch.dtype), row["sizes"], row["strides"]
        count = _extent(sizes, strides)
        if (
            row["bytes"] != count * dtype.itemsize
            or min([0, *sizes, *strides]) < 0
            or at + row["bytes"] > len(data)
        ):
            raise ArtifactError("a constant is not what its row says")
        flat = torch.empty(count, dtype=dtype)
        if count:
            flat.view(torch.uint8).copy_(
                torch.frombuffer(bytearray(data[at : at + row["bytes"]]), dtype=torch.uint8)
            )
        tensors.append(flat.as_strided(sizes, strides))
        at += row["bytes"]
    return tensors


# -- arguments of calls --------------------------------------------------------------------------------

_NAMED = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}


def _encode(value: Any, constants: _Writer) -> Any:
    """A template of arguments as JSON; raises ArtifactError for what has no such form."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value) is list:
        return [_encode(item, constants) for item in value]
    if type(value) is tuple:
        return {"tuple": [_encode(item, constants) for item in value]}
    if slot := _C.slot_of(value):
        return {"slot": list(slot)}
    if isinstance(value, Tensor):
        return {"constant": constants.add(value)}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    for name, kind in _NAMED.items():
        if isinstance(value, kind):
            return {name: str(value).removeprefix("torch.")}
    raise ArtifactError(f"it takes an object of type {type(value).__name__}, which has no form in a file")


def _decode(value: Any, constants: list[Tensor]) -> Any:
    if isinstance(value, list):
        return [_decode(item, constants) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_decode(item, constants) for item in content)
    if kind == "slot":
        return _C.slot(*content)
    if kind == "constant":
        return constants[content]
    if kind == "device":
        return torch.device(content)
    if kind == "complex":
        return complex(*content)
    return _named(content, _NAMED[kind])


# -- operators -----------------------------------------------------------------------------------------


def _describe(target: Any) -> dict[str, str]:
    if isinstance(target, OpOverload):
        return {"name": str(target), "schema": str(target._schema)}
    if isinstance(target, operator.itemgetter):
        return {"name": _FIRST_ITEM, "schema": ""}
    name = getattr(target, "__name__", type(target).__name__)
    raise ArtifactError(f"it calls {name}, which is no operator with a schema")


def _operator(name: str, schema: str) -> Any:
    """The operator of that name, if it is registered here and has the schema that it had."""
    if name == _FIRST_ITEM:
        return operator.itemgetter(0)
    found: Any = torch.ops
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except (AttributeError, RuntimeError):
        raise ArtifactError(
            f"it calls {name}, which is not registered in this process: import what defines it first"
        ) from None
    if not isinstance(found, OpOverload) or str(found._schema) != schema:
        raise ArtifactError(f"it calls {schema or name}, which is another operator here")
    if found._schema.is_mutable:
        raise ArtifactError(f"it calls {name}, which writes to its arguments")
    return found


# -- graphs --------------------------------------------------------------------------------------------


class Graph(NamedTuple):
    """A graph as data: the language's text, and lists as _C.parts has them."""

    text: str
    inputs: list[Any]
    outputs: list[Any]
    calls: list[Any]
    constants: _Writer

    def header(self) -> dict[str, Any]:
        fields = self._asdict()
        return fields | {"constants": self.constants.rows}


def describe(callable_: Any) -> Graph:
    """A callable of _C.compile that was given a report; raises ArtifactError for what cannot be saved."""
    constants = _Writer()
    parts = _C.parts(callable_)
    calls = []
    for _, target, args, kwargs, node, source, positions in parts["calls"]:
        try:
            call = _describe(target) | {
                "args": [_encode(arg, constants) for arg in args],
                "kwargs": {name: _encode(arg, constants) for name, arg in (kwargs or {}).items()},
            }
        except ArtifactError as error:
            raise ArtifactError(f"{error} (operator {node}, {source or 'source unknown'})") from None
        calls.append(call | {"node": node, "source": source, "positions": positions})
    outputs = [(kind, index, _encode(value, constants)) for kind, index, value in parts["outputs"]]
    return Graph(callable_.report["graph"], parts["inputs"], outputs, calls, constants)


def _call(row: dict[str, Any], constants: list[Tensor]) -> tuple[Any, ...]:
    target = _operator(row["name"], row["schema"])
    args = tuple(_decode(arg, constants) for arg in row["args"])
    kwargs = {name: _decode(arg, constants) for name, arg in row["kwargs"].items()} or None
    return row["name"], target, args, kwargs, row["node"], row["source"], row["positions"]


def _other_arguments(*args: Any) -> Any:
    raise RuntimeError(
        "the artifact was compiled for other arguments: another dtype, device, rank, size or stride than at "
        "its compile (guards would have said which)"
    )


def _compile(graph: Any, options: Options, report: dict[str, Any] | None = None) -> Any:
    return compile_with(options, graph, _other_arguments, report=report)


def rebuild(header: dict[str, Any], data: memoryview, options: Options) -> Any:
    """The callable of a graph that was read."""
    constants = _tensors(header["constants"], data)
    parts = {
        "text": header["text"],
        "inputs": [tuple(row) for row in header["inputs"]],
        "outputs": [(kind, index, _decode(value, constants)) for kind, index, value in header["outputs"]],
        "calls": [_call(row, constants) for row in header["calls"]],
    }
    return _compile(parts, options)


# -- bytes ---------------------------------------------------------------------------------------------


def pack(header: dict[str, Any], data: bytes) -> bytes:
    """Three lines (the format, the SHA-256 of the rest, the header as JSON), then the constants."""
    body = json.dumps(header, separators=(",", ":")).encode() + b"\n" + data
    return b"%s%d\n%s\n%s" % (_MAGIC, FORMAT, hashlib.sha256(body).hexdigest().encode(), body)


def unpack(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """Raises ArtifactError for bytes that are no artifact, a newer one, or a damaged one."""
    first, _, rest = data.partition(b"\n")
    number = first.removeprefix(_MAGIC)
    if not first.startswith(_MAGIC) or not number.isdigit():
        raise ArtifactError("these bytes are no artifact of dlc's")
    if int(number) > FORMAT:
        raise ArtifactError(
            f"the artifact was made by a newer dlc: its format is {int(number)}, "
            f"and this dlc reads up to {FORMAT}"
        )
    digest, _, body = rest.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ArtifactError("the artifact is damaged: its SHA-256 is not that of its content")
    line, _, constants = body.partition(b"\n")
    return json.loads(line), memoryview(constants)


class Packed(NamedTuple):
    """A compiled graph with all that its bytes are made of."""

    callable: Any
    header: dict[str, Any]
    constants: bytes

    def to_bytes(self) -> bytes:
        return pack(self.header, self.constants)

    @classmethod
    def from_bytes(cls, data: bytes) -> Packed:
        """Raises ArtifactError for what is no artifact, is damaged, newer, or calls what is not here."""
        header, constants = unpack(data)
        try:
            callable_ = rebuild(header["graph"], constants, parse(header["options"]))
        except ArtifactError as error:
            raise ArtifactError(f"the artifact cannot be loaded: {error}") from error.__cause__
        except (LookupError, TypeError, ValueError, *_COMPILE_ERRORS) as error:
            raise ArtifactError(f"the artifact cannot be loaded: {error}") from error
        return cls(callable_, header, bytes(constants))


def _saved(given: dict[str, Any], options: Options) -> dict[str, Any]:
    """The options that the user gave, but for what belongs to the machine: a folder, a compiler."""
    taken = {name: getattr(options, name) for name in given if name not in ("cc", "dump")}
    return {name: value for name, value in taken.items() if name != "cache" or isinstance(value, bool)}


def compile_packed(graph: GraphModule, given: dict[str, Any], options: Options) -> Packed:
    """A graph of operators; given: the options that the user gave.

    Raises CaptureError for a graph that dlc cannot take, and ArtifactError for one that cannot be saved.
    """
    report: dict[str, Any] = {}
    compiled = laid_as_eager(graph, lambda: _compile(graph, options, report))
    described = describe(compiled)
    options_kept = _saved(given, options)
    header = {"dlc": dlc.__version__, "options": options_kept, "graph": described.header(), "leaves": None}
    return Packed(compiled, header, bytes(described.constants.bytes))
