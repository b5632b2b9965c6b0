"""Compiled graphs as bytes: text, lists and constants, with a hash. See docs/aot_compile.md."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

import dlc

from . import _C, torch_init  # noqa: F401  (before anything is compiled)
from ._C import CaptureError
from .compiler import compile_with
from .layouts import laid_as_eager
from .operators import is_allowed
from .options import Options, parse

FORMAT = 1
_MAGIC = b"dlc artifact "
# How the walk has a graph's own tensors: the first item of a tuple of one.
_FIRST_ITEM = "operator.itemgetter"
# Of the options, those that a file may set: it chooses no program that is run and no folder.
_OPTIONS = (
    "tier",
    "strict",
    "verify",
    "fuel",
    "capture",
    "memory_budget",
    "tune",
    "tune_budget",
    "cache",
    "products",
    "activations",
)
_SAID = (CaptureError, _C.InternalError, _C.ParseError)  # and ValueError: what they say is a sentence


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
_DEVICES = ("cpu", "meta")  # to name another one may start it


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
    if len(value) != 1:
        raise ArtifactError("an argument is not of one kind")
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_decode(item, constants) for item in content)
    if kind == "slot":
        return _C.slot(*content)
    if kind == "constant":
        return _at(constants, content)
    if kind == "device":
        return _device(content)
    if kind == "complex":
        return complex(*content)
    if kind not in _NAMED:
        raise ArtifactError(f"an argument is of no kind that there is: {kind!r}")
    return _named(content, _NAMED[kind])


def _at(items: list[Any], index: Any) -> Any:
    if type(index) is not int or not 0 <= index < len(items):
        raise ArtifactError(f"there is no constant of number {index!r}")
    return items[index]


def _device(name: Any) -> torch.device:
    device = torch.device(name)
    if device.type not in _DEVICES:
        raise ArtifactError(f"it names the device {name!r}")
    return device


# -- operators -----------------------------------------------------------------------------------------


def _check_allowed(name: str) -> None:
    if not is_allowed(name):
        raise ArtifactError(
            f"it calls {name}, which is not among the operators that an artifact may call; for one of yours "
            f"see dlc.allow_operators"
        )


def _check_effects(target: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Pinned memory is taken from the whole machine."""
    names = [argument.name for argument in target._schema.arguments]
    if (dict(zip(names, args, strict=False)) | kwargs).get("pin_memory"):
        raise ArtifactError(f"it calls {target} with pin_memory")


def _describe(target: Any) -> dict[str, str]:
    if isinstance(target, OpOverload):
        _check_allowed(str(target))
        return {"name": str(target), "schema": str(target._schema)}
    if isinstance(target, operator.itemgetter):
        return {"name": _FIRST_ITEM, "schema": ""}
    name = getattr(target, "__name__", type(target).__name__)
    raise ArtifactError(f"it calls {name}, which is no operator with a schema")


def _operator(name: str, schema: str) -> Any:
    """The operator of that name, if it is registered here and has the schema that it had."""
    if name == _FIRST_ITEM:
        return operator.itemgetter(0)
    _check_allowed(name)
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


def describe_calls(rows: list[Any]) -> tuple[list[dict[str, Any]], _Writer]:
    """Calls of _C.parts as JSON, and their constants; raises ArtifactError for what cannot be saved."""
    constants = _Writer()
    calls = []
    for _, target, args, kwargs, node, source, positions in rows:
        try:
            call = _describe(target) | {
                "args": [_encode(arg, constants) for arg in args],
                "kwargs": {name: _encode(arg, constants) for name, arg in (kwargs or {}).items()},
            }
        except ArtifactError as error:
            raise ArtifactError(f"{error} (operator {node}, {source or 'source unknown'})") from None
        calls.append(call | {"node": node, "source": source, "positions": positions})
    return calls, constants


def describe(callable_: Any) -> Graph:
    """A callable of _C.compile that was given a report; raises ArtifactError for what cannot be saved."""
    parts = _C.parts(callable_)
    calls, constants = describe_calls(parts["calls"])
    outputs = [(kind, index, _encode(value, constants)) for kind, index, value in parts["outputs"]]
    return Graph(callable_.report["graph"], parts["inputs"], outputs, calls, constants)


def decode_call(row: dict[str, Any], constants: list[Tensor]) -> tuple[Any, ...]:
    target = _operator(row["name"], row["schema"])
    args = tuple(_decode(arg, constants) for arg in row["args"])
    kwargs = {name: _decode(arg, constants) for name, arg in row["kwargs"].items()}
    if isinstance(target, OpOverload):
        _check_effects(target, args, kwargs)
    return row["name"], target, args, kwargs or None, row["node"], row["source"], row["positions"]


def _other_arguments(*args: Any) -> Any:
    raise RuntimeError(
        "the artifact was compiled for other arguments: another dtype, device, rank, size or stride than at "
        "its compile, a size outside of its range, or memory that is gone (guards would have said which)"
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
        "calls": [decode_call(row, constants) for row in header["calls"]],
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
    if not first.startswith(_MAGIC) or not number.isdigit() or len(number) > 9:
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
    try:
        header = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"the artifact is damaged: its header is no JSON ({_reason(error)})") from error
    if not isinstance(header, dict):
        raise ArtifactError("the artifact is damaged: its header is no object")
    return header, memoryview(constants)


# -- what is around the graph --------------------------------------------------------------------------


def _options(given: Any) -> Options:
    """Those that a file may set: what names a program or a folder is the machine's.

    Whatever the file says, each stage of the compile is verified: that loops stay within their tensors is
    proved, not believed of the passes.
    """
    for name, value in given.items():
        if name not in _OPTIONS or (name == "cache" and not isinstance(value, bool)):
            raise ArtifactError(f"it sets the option {name!r} to {value!r}")
    return dataclasses.replace(parse(given), verify=True)


def _check_leaves(leaves: Any, graph: dict[str, Any]) -> None:
    """What the caller gets: results, arguments and plain objects."""
    counts = {"result": len(graph["outputs"]), "argument": len(graph["inputs"])}
    for kind, value in leaves or ():
        if kind in counts:
            known = type(value) is int and 0 <= value < counts[kind]
        else:
            known = kind == "object" and (value is None or isinstance(value, (bool, int, float, str)))
        if not known:
            raise ArtifactError(f"it returns what is not there: {kind!r} {value!r}")


def _reason(error: BaseException) -> str:
    """Why the content of a file is none; most exceptions of Python's say it for who knows the code alone."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if isinstance(error, (ValueError, *_SAID)):
        return str(error)
    return f"a part of it is of another kind ({type(error).__name__}: {error})"


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
            _check_leaves(header["leaves"], header["graph"])
            callable_ = rebuild(header["graph"], constants, _options(header["options"]))
        except ArtifactError as error:
            raise ArtifactError(f"the artifact cannot be loaded: {error}") from error.__cause__
        except Exception as error:  # whatever is wrong with the bytes: nothing else is the cause here
            raise ArtifactError(f"the artifact cannot be loaded: {_reason(error)}") from error
        return cls(callable_, header, bytes(constants))


def _saved(given: dict[str, Any], options: Options) -> dict[str, Any]:
    """The options that the user gave, but for what belongs to the machine or does nothing in a file."""
    taken = {name: getattr(options, name) for name in given if name not in ("cc", "dump", "freeze")}
    return {name: value for name, value in taken.items() if name != "cache" or isinstance(value, bool)}


def compile_packed(graph: GraphModule, given: dict[str, Any], options: Options) -> Packed:
    """A graph of operators; given: the options that the user gave.

    Raises CaptureError for a graph that dlc cannot take, and ArtifactError for one that cannot be saved.
    """
    report: dict[str, Any] = {}
    compiled = laid_as_eager(graph, lambda: _compile(graph, options, report))
    with _disable_current_modes():  # AOTAutograd compiles under fake tensors; the constants are real
        described = describe(compiled)
    options_kept = _saved(given, options)
    header = {"dlc": dlc.__version__, "options": options_kept, "graph": described.header(), "leaves": None}
    return Packed(compiled, header, bytes(described.constants.bytes))
