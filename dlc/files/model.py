"""dlc.load: a program of a file, on NumPy arrays. Nothing here imports torch."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import ir
from .._C import InternalError, Loaded, ParseError
from ..options import parse
from . import FileError, is_onnx
from .signature import Signature, give, leaves, shown, sizes_of, take
from .tensors import Entry, Tensors, bytes_of, stored, write

FORMAT = 1
#: The lines of a file's metadata.
_FORMAT, _LANGUAGE, _PROGRAM, _SIGNATURE = "dlc.format", "dlc.ir", "dlc.program", "dlc.signature"
_SHA256, _DATA, _RESULTS = "dlc.sha256", "dlc.data_sha256", "dlc.example_sha256"
_PRODUCER = "producer"
_NUMPY = {name: np.dtype(kind) for name, kind in ir._NUMPY.items()}
_dtype = ir._dtype


def _dims(kind: str) -> list[str]:
    found = kind.partition(" strides=")[0].partition("[")[2].removesuffix("]")
    return [dim.strip() for dim in found.split(", ")] if found else []


def digest(results: Any) -> str:
    """SHA-256 over dtypes, shapes and bytes."""
    found = hashlib.sha256()
    for result in results:
        array = np.asarray(result)
        found.update(f"{array.dtype.str} {list(array.shape)}\n".encode())
        found.update(bytes_of(array))
    return found.hexdigest()


def _digest_of_file(metadata: Mapping[str, str], entries: Mapping[str, Entry]) -> str:
    """Over all that the file says besides the bytes of its arrays, whose own digest is among it."""
    found = hashlib.sha256()
    for key in (_FORMAT, _LANGUAGE, _PROGRAM, _SIGNATURE, _DATA, _RESULTS):
        text = metadata.get(key, "").encode()
        found.update(b"%s %d\n" % (key.encode(), len(text)))
        found.update(text)
    for name in sorted(entries):
        found.update(f"{name} {entries[name].dtype} {list(entries[name].shape)}\n".encode())
    return found.hexdigest()


# -- reading -------------------------------------------------------------------------------------------


def _check_format(metadata: Mapping[str, str]) -> None:
    number = metadata.get(_FORMAT)
    if number is None:
        raise FileError("it is a file of safetensors without a program of dlc's")
    if not number.isdecimal() or len(number) > 9:
        raise FileError(f"its format is {number!r:.20}, which is no number")
    if int(number) > FORMAT:
        by = metadata.get(_PRODUCER, "a newer dlc")
        raise FileError(
            f"its format is {int(number)} (written by {by:.40}), and this dlc reads up to {FORMAT}: "
            "install a newer dlc here, or save the model again with this one"
        )
    for key in (_LANGUAGE, _PROGRAM, _SIGNATURE, _SHA256, _DATA):
        if key not in metadata:
            raise FileError(f"its metadata lacks {key}")
    if metadata[_LANGUAGE] != "1":
        raise FileError(
            f"its program is of version {metadata[_LANGUAGE]!r:.20} of the language, and this dlc reads 1: "
            "install a newer dlc here, or save the model again with this one"
        )


class _Reader:
    """The parts of a file, each checked before the next one is looked at."""

    def __init__(self, path: Any) -> None:
        self.file = Tensors(path, self.wanted)
        metadata = self.file.metadata
        if _digest_of_file(metadata, self.file.entries) != metadata[_SHA256]:
            raise FileError("it is damaged: its SHA-256 is not that of its content")

    def wanted(self, metadata: dict[str, str]) -> set[str]:
        """The names that the table may have."""
        _check_format(metadata)
        try:
            self.function = ir.parse(metadata[_PROGRAM], "program")
        except (ParseError, InternalError, ValueError) as error:
            raise FileError(f"its program is none: {str(error).partition(chr(10))[0]}") from None
        params, results = len(self.function.params), len(self.function.results)
        self.signature = Signature.from_json(metadata[_SIGNATURE], params, results)
        names = {weight.names[0] for weight in self.signature.weights if not weight.own}
        names |= {f"dlc.state.{state.name}" for state in self.signature.states if state.stored}
        return names | set(self.signature.example.values())


def _check_data(file: Tensors) -> None:
    if hashlib.sha256(file.data()).hexdigest() != file.metadata[_DATA]:
        raise FileError("it is damaged: the SHA-256 of its arrays is not that of its content")


def _own(names: list[str], dtype: str, file: Tensors | None, path: Any) -> np.ndarray:
    if file is None:
        raise FileError(
            f"its weights are in a file of their own ({names[0]!r:.60} and others): "
            "dlc.load(path, weights='model.safetensors')"
        )
    name = next((name for name in names if name in file.entries), names[0])
    try:
        return file.array(name, dtype)
    except FileError as error:
        raise FileError(f"{error} ({path})") from None


def load(path: Any, weights: Any, check: bool, tier: str) -> Model:
    try:
        reader = _Reader(path)
        if check:
            _check_data(reader.file)
        own = None if weights is None else Tensors(weights, lambda metadata: None)
        return _model(reader, own, weights, tier)
    except FileError as error:
        raise FileError(f"dlc cannot load {os.fspath(path)!r}: {error}") from None


def program(path: Any, weights: Any = None) -> tuple[ir.Function, Signature, dict[int, np.ndarray]]:
    """The program of a file, which is not compiled, what it is called with, and its weights by parameter."""
    try:
        reader = _Reader(path)
        own = None if weights is None else Tensors(weights, lambda metadata: None)
        return reader.function, reader.signature, _fixed(reader, own, weights)
    except FileError as error:
        raise FileError(f"dlc cannot load {os.fspath(path)!r}: {error}") from None


def weights_of(
    function: ir.Function, signature: Signature, fixed: Mapping[int, np.ndarray]
) -> dict[str, tuple[str, np.ndarray]]:
    """By parameter of the program, the name of the weight's array in a file, and the array."""
    params = function.params
    return {params[w.param].name: (w.names[0], fixed[w.param]) for w in signature.weights}


def _fixed(reader: _Reader, own: Tensors | None, weights: Any) -> dict[int, np.ndarray]:
    params, fixed = reader.function.params, {}
    for weight in reader.signature.weights:
        kind = _dtype(params[weight.param].type)
        if weight.own:
            fixed[weight.param] = _own(weight.names, kind, own, weights)
        else:
            fixed[weight.param] = reader.file.array(weight.names[0], kind)
    return fixed


def _model(reader: _Reader, own: Tensors | None, weights: Any, tier: str) -> Model:
    params, signature, file = reader.function.params, reader.signature, reader.file
    fixed, states = _fixed(reader, own, weights), {}
    for state in signature.states:
        if state.stored:
            states[state.name] = file.array(f"dlc.state.{state.name}", _dtype(params[state.param].type))
    example = {int(k): file.array(name, _dtype(params[int(k)].type)) for k, name in signature.example.items()}

    def release() -> None:
        for one in (file, own):
            if one is not None:
                one.forget()

    def origin(cache: str | None) -> str | None:
        """Signature and arrays are in these files, so their content says what each weight is."""
        found = [one.digest(cache) for one in (file, own) if one is not None]
        return " ".join(digest for digest in found if digest) if all(found) else None

    made = Model(
        reader.function, signature, fixed, states, example, dict(file.metadata), tier, release, origin
    )
    release()
    return made


# -- the model -----------------------------------------------------------------------------------------


def _tensor_type() -> Any:
    """torch.Tensor, if somebody has imported torch."""
    torch = sys.modules.get("torch")
    return getattr(torch, "Tensor", None)


class Model:
    """A program with its weights, which runs without torch. dlc.load makes it.

    Called with arrays, in the containers that the saved function took, it returns arrays in those that it
    returned: NumPy's for NumPy's, tensors for torch's where torch is imported, and those of another library
    that has DLPack and the array API for its own. bfloat16 is uint16 in NumPy, its bits. Safe to call from
    several threads.
    """

    def __init__(
        self,
        function: ir.Function,
        signature: Signature,
        fixed: dict[int, np.ndarray],
        states: dict[str, np.ndarray],
        example: dict[int, np.ndarray],
        metadata: dict[str, str],
        tier: str = "auto",
        release: Callable[[], None] | None = None,
        origin: Callable[[str | None], str | None] | None = None,
    ) -> None:
        """release: called while values are prepared, when pages of weights that were read may go.

        origin: of the cache folder, a text that no other `fixed` has; None: such values are not kept.
        """
        self.text = function.text
        self.metadata = metadata
        #: ONNX knows no numbers: a size that is a result is an array without axes there.
        self._from_onnx = metadata.get(_PRODUCER, "").endswith(", from ONNX")
        self._function, self._signature = function, signature
        self._fixed, self._states, self._example = fixed, states, example
        params = function.params
        options = parse({"tier": tier}).compiler_arguments()
        wanted = {name: options[name] for name in ("tier", "cc", "cache", "fuel")}
        try:
            self._run = Loaded(
                self.text,
                {params[k].name: a for k, a in fixed.items()},
                release=release,
                origin=functools.partial(origin, options["cache"]) if origin else None,
                **wanted,
            )
        except (ValueError, TypeError, InternalError) as error:
            raise FileError(f"its program is none: {str(error).partition(chr(10))[0]}") from None
        self._free = [k for k in range(len(params)) if k not in fixed]
        self._named = [name for name, _ in signature.inputs[len(signature.inputs) - signature.keywords :]]

    # -- what it is

    @property
    def signature(self) -> str:
        """Arguments and results, with names, dtypes and sizes."""
        types = [param.type for param in self._function.params]
        words = [f"{name}: {shown(node, types)}" for name, node in self._signature.inputs]
        if self._named:
            words.insert(len(words) - len(self._named), "*")
        if stored := [s for s in self._signature.states if s.stored]:
            words += [] if self._named else ["*"]
            words += ["state: {" + ", ".join(f"{s.name}: {types[s.param]}" for s in stored) + "}"]
        given = shown(self._signature.output, list(self._function.results))
        if self._signature.states:
            written = [f"{s.name}: {self._function.results[s.result]}" for s in self._signature.states]
            given = f"({given}, {{{', '.join(written)}}})"
        return f"{self._signature.name}({', '.join(words)}) -> {given}"

    @property
    def sizes(self) -> dict[str, tuple[int, int | None, int]]:
        """By name of a size: the least, the most (None: any) and a number that it is a multiple of."""
        return sizes_of(self.text)

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The arrays of the weights by name, over the mapped file, read only."""
        return {weight.names[0]: self._fixed[weight.param] for weight in self._signature.weights}

    def parameters(self) -> dict[str, str]:
        """By parameter of the program that is a weight, the name of the array."""
        params = self._function.params
        return {params[weight.param].name: weight.names[0] for weight in self._signature.weights}

    def state(self) -> dict[str, np.ndarray]:
        """What a call writes besides its arguments, as it was when the model was saved: copies."""
        return {name: array.copy() for name, array in self._states.items()}

    def bytes(self, **sizes: int) -> int:
        """The most bytes that a call takes at once, besides weights and arguments.

        sizes: all sizes of the program, by name. Raises TypeError for other names, ValueError for
        sizes that are not allowed.
        """
        if set(sizes) != set(self._run.sizes):
            raise TypeError(f"bytes takes the sizes {', '.join(f'{size}=..' for size in self._run.sizes)}")
        for name, (low, high, multiple) in self.sizes.items():
            n = sizes[name]
            if n < low or n > (2**63 - 1 if high is None else high) or n % multiple:
                raise ValueError(f"{name} = {n} is not allowed: {self._allowed(name)}")
        found = self._run.memory(sizes)
        if found is None:
            raise ValueError(f"there are no arrays of these sizes: {sizes}")
        return found[1]

    def _allowed(self, name: str) -> str:
        low, high, multiple = self.sizes[name]
        most = "" if high is None else f" and at most {high}"
        return f"{name} is at least {low}{most}" + (f", a multiple of {multiple}" if multiple > 1 else "")

    def __repr__(self) -> str:
        return f"<dlc model {self.signature}>"

    # -- calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for these arguments. A model that writes gives (results, what it has written).

        state=: what such a model has written in the call before; without it, as the model was saved.

        Raises TypeError and ValueError for arguments of other dtypes, sizes or containers, by name.
        """
        state = kwargs.pop("state", None) if self._states else None
        given = self._bind(args, kwargs)
        stored = {}
        for one in self._signature.states:
            if one.stored and state is None:
                stored[one.param] = self._states[one.name]
            elif one.stored and one.name in state:
                given[one.param] = state[one.name]
            elif one.stored:
                raise TypeError(f"state: there is no array {one.name!r} in it")
        given |= stored
        like: list[Any] = []
        arrays = [self._array(k, given[k], like) for k in self._free]
        made = self._results(arrays)
        back = _back(like)
        given_back: set[int] = set()

        def value(kind: str, k: int) -> Any:
            if kind == "input":
                own = self._fixed.get(k, stored.get(k))
                return given[k] if own is None else back(own.copy(), self._function.params[k].type)
            one = made[k].copy() if k in given_back and isinstance(made[k], np.ndarray) else made[k]
            if isinstance(one, int) and self._from_onnx:
                one = np.array(one, np.int64)
            given_back.add(k)  # a result that is there twice is two arrays
            return back(one, self._function.results[k])

        out = give(self._signature.output, value)
        if not self._signature.states:
            return out
        return out, {one.name: value("array", one.result) for one in self._signature.states}

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any]:
        inputs, found = self._signature.inputs, {}
        most = len(inputs) - self._signature.keywords
        if len(args) > most or {name for name, _ in inputs[len(args) :]} != set(kwargs):
            missing = [
                name
                for name, node in inputs[len(args) :]
                if name not in kwargs and next(leaves(node), None) is not None
            ]
            known = {name for name, _ in inputs[len(args) :]}
            unknown = [name for name in kwargs if name not in known]
            if len(args) > most or missing or unknown:
                what = f"{unknown[0]!r} is none" if unknown else f"missing {', '.join(missing)}"
                raise TypeError(f"{self.signature}: {'too many are given' if len(args) > most else what}")
        for k, (name, node) in enumerate(inputs):
            if k < len(args) or name in kwargs:
                take(node, args[k] if k < len(args) else kwargs[name], found, f"argument {name!r}")
        return found

    def _array(self, k: int, value: Any, like: list[Any]) -> np.ndarray:
        kind = self._function.params[k].type
        dtype = _NUMPY[_dtype(kind)]
        if isinstance(value, np.ndarray):
            return value
        tensor = _tensor_type()
        if tensor is not None and isinstance(value, tensor):
            like.append(value)
            return _of_tensor(value)
        if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
            like.append(value)
            return np.from_dlpack(value)
        array = np.asarray(value)
        return array.astype(dtype, casting="same_kind") if array.dtype != dtype else array

    def _results(self, arrays: list[np.ndarray]) -> tuple[Any, ...]:
        made = self._run(*arrays)
        if made is None:  # other strides than the program's: rows are what it was saved for
            dense = [np.ascontiguousarray(array).reshape(array.shape) for array in arrays]
            made = self._run(*dense)
        if made is None:
            raise ValueError(self._why(arrays))
        return made

    def _why(self, arrays: list[np.ndarray]) -> str:
        """Which size is wrong."""
        known: dict[str, int] = {}
        for k, array in zip(self._free, arrays, strict=True):
            param = self._function.params[k]
            for axis, (dim, n) in enumerate(zip(_dims(param.type), array.shape, strict=True)):
                want = str(known.setdefault(dim, n)) if dim.isidentifier() else dim
                if want.isdecimal() and int(want) != n:
                    said = f"{dim} = {want}" if dim.isidentifier() else want
                    return f"axis {axis} of {param.name!r} has size {n}, and the program takes {said}"
        for name, n in known.items():
            low, high, multiple = self.sizes.get(name, (0, None, 1))
            if n < low or (high is not None and n > high) or n % multiple:
                return f"the size {name} = {n} is not allowed: {self._allowed(name)}"
        return f"the sizes of the arrays are not those of {self.signature}"

    def export_c(
        self,
        folder: str | os.PathLike[str],
        name: str = "m",
        *,
        sizes: dict[str, int] | None = None,
        threads: int = 16,
        target: str = "c",
        prepare: bool = True,
    ) -> list[Path]:
        """Write the program as plain C11 to a folder, as dlc.ir.Function.export_c does.

        Weights of at most 100 kB are part of the program. Others are in <name>.safetensors, by the names
        that they have in the model's own file, and <name>_bind finds them there. Those that products read
        are in the order in which these read them, as `fc.weight.panels`, and what is computed of weights
        alone is there instead of them. With `prepare=False` all are as the model has them, so that
        <name>_bind takes a file of the model trained anew, and a call prepares them. States are arguments of
        <name>_run. `target="device"` is for a small device, `target="hls"` for tools that make circuits:
        there `sizes` are numbers in the program, and all of them are given. Returns the paths of the files.
        Raises what that raises.
        """
        weights = weights_of(self._function, self._signature, self._fixed)
        return self._function.export_c(
            folder, name, sizes=sizes, threads=threads, weights=weights, target=target, prepare=prepare
        )

    def export_wasm(
        self, folder: str | os.PathLike[str], name: str = "m", *, sizes: dict[str, int] | None = None
    ) -> list[Path]:
        """Write the model for browsers to a folder: <name>.wasm, its weights, a module and a page.

        `<name>.mjs` runs it on typed arrays, and `<name>.html` shows the example of dlc.save if there is one.
        Sizes stay parameters, but for those in `sizes`, which are these numbers in the program; the page has
        no example then if that of dlc.save has others. The bits are those of dlc on a processor without fused
        multiply-adds. Returns the paths of the files.

        Raises RuntimeError where no compiler for WebAssembly is installed (pip install ziglang); ValueError
        for a name that C does not allow, and for a size that the model does not have or that cannot be that
        number; CaptureError for a loop whose number of steps is the size of a result.
        """
        from . import wasm

        params = self._function.params
        given = {params[k].name: array for k, array in self._fixed.items()}
        given |= {params[s.param].name: self._states[s.name] for s in self._signature.states if s.stored}
        fixed = {params[k].name for k in self._fixed}
        example, numbers = self._example_of_call(), dict(sizes or {})
        if example is not None and any(example[0].get(size, n) != n for size, n in numbers.items()):
            example = None
        return wasm.export(self._function, folder, name, given, fixed, example, numbers)

    def _example_of_call(self) -> tuple[dict[str, int], list[np.ndarray], list[Any]] | None:
        """Sizes, arrays of the parameters that are no weights, and results; None: none is stored."""
        if self.metadata.get(_RESULTS) is None:
            return None
        arrays, sizes = self._example_arrays(), {}
        for k, array in zip(self._free, arrays, strict=True):
            dims = _dims(self._function.params[k].type)
            sizes |= {dim: n for dim, n in zip(dims, array.shape, strict=True) if dim in self._run.sizes}
        if set(sizes) != set(self._run.sizes):
            return None
        copies = [array.copy() for array in arrays]  # a call may write to them
        return sizes, arrays, list(self._results(copies))

    # -- the example, and files

    def verify(self) -> tuple[bool, str, str]:
        """Repeats the stored example: whether the results have the bits they had, and both SHA-256.

        Raises ValueError for a model that was saved without one (check=False).
        """
        wanted = self.metadata.get(_RESULTS)
        if not wanted:
            raise ValueError("there is no example in the file: dlc.save(.., check=False) stores none")
        found = digest(self._results(self._example_arrays()))
        return found == wanted, found, wanted

    def _example_arrays(self) -> list[np.ndarray]:
        return [
            self._example[k] if k in self._example else self._states[self._state_of(k)] for k in self._free
        ]

    def _state_of(self, param: int) -> str:
        return next(s.name for s in self._signature.states if s.stored and s.param == param)

    def save(self, path: Any) -> None:
        """Writes the model to a file, with all weights in it: of dlc's, or of ONNX if its name ends in .onnx.

        Raises OSError where it cannot be written. As ONNX: FileError with all operations that ONNX lacks,
        each with its line, and ImportError without the onnx package: docs/howto/onnx.md.
        """
        if is_onnx(path):
            from . import onnx_out

            onnx_out.save(self, path)
            return
        weights = [dataclasses.replace(weight, own=False) for weight in self._signature.weights]
        self._write(path, dataclasses.replace(self._signature, weights=weights))

    def _write(self, path: Any, signature: Signature) -> None:
        params = self._function.params
        arrays = {}
        for weight in signature.weights:
            if not weight.own:
                arrays[weight.names[0]] = stored(self._fixed[weight.param], _dtype(params[weight.param].type))
        for state in signature.states:
            if state.stored:
                kind = _dtype(params[state.param].type)
                arrays[f"dlc.state.{state.name}"] = stored(self._states[state.name], kind)
        for k, name in signature.example.items():
            arrays[name] = stored(self._example[int(k)], _dtype(params[int(k)].type))

        def metadata(entries: dict[str, Entry]) -> dict[str, str]:
            from .. import __version__

            data = hashlib.sha256()
            for name in entries:
                data.update(bytes_of(arrays[name][1]))
            rows = {
                _FORMAT: str(FORMAT),
                _LANGUAGE: "1",
                _PRODUCER: f"dlc {__version__}",
                _PROGRAM: self.text,
                _SIGNATURE: signature.to_json(),
                _DATA: data.hexdigest(),
            }
            if self.metadata.get(_RESULTS):
                rows[_RESULTS] = self.metadata[_RESULTS]
            rows[_SHA256] = _digest_of_file(rows, entries)
            return rows

        write(path, arrays, metadata)

    def remember(self) -> None:
        """Runs the example, and keeps the SHA-256 of its results."""
        self.metadata[_RESULTS] = "-"
        self.metadata[_RESULTS] = self.verify()[1]


def _of_tensor(value: Any) -> np.ndarray:
    torch = sys.modules["torch"]
    value = value.detach()
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    return (value.view(torch.uint16) if value.dtype == torch.bfloat16 else value).numpy()


def _back(like: list[Any]) -> Any:
    """From an array and its type to what the caller has arrays of."""
    tensor = _tensor_type()
    if like and tensor is not None and isinstance(like[0], tensor):
        torch = sys.modules["torch"]

        def as_tensor(value: Any, kind: str) -> Any:
            if not isinstance(value, np.ndarray):
                return value
            made = torch.from_numpy(value if value.flags.writeable else value.copy())
            return made.view(torch.bfloat16) if _dtype(kind) == "bf16" else made

        return as_tensor
    space = like[0].__array_namespace__() if like and hasattr(like[0], "__array_namespace__") else None
    if space is not None and hasattr(space, "from_dlpack"):

        def as_own(value: Any, kind: str) -> Any:
            if not isinstance(value, np.ndarray):
                return value
            return space.from_dlpack(value if value.flags.writeable else value.copy())

        return as_own
    return lambda value, kind: value
