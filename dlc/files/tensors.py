"""safetensors files: a table of named arrays as JSON, then their bytes. Needs no torch.

    u64 length of the table, little endian; the table, padded with spaces; the arrays, without holes

The reader trusts nothing. It looks at each entry as it comes, and refuses the first that is wrong, so that a
table costs no more memory than the entries that are wanted.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import _C
from . import FileError

MOST = 100_000_000  # bytes of a table: the limit of the safetensors library
_MOST_AXES = 16
_ALIGNED = 64  # where the arrays begin
METADATA = "__metadata__"
#: By name in the file: the dtype in the language, and NumPy's.
DTYPES = {
    "BOOL": ("bool", np.dtype(np.bool_)),
    "U8": ("u8", np.dtype(np.uint8)),
    "I8": ("i8", np.dtype(np.int8)),
    "I16": ("i16", np.dtype("<i2")),
    "I32": ("i32", np.dtype("<i4")),
    "I64": ("i64", np.dtype("<i8")),
    "F16": ("f16", np.dtype("<f2")),
    "BF16": ("bf16", np.dtype("<u2")),  # the bits
    "F32": ("f32", np.dtype("<f4")),
    "F64": ("f64", np.dtype("<f8")),
}
_NAMES = {short: name for name, (short, _) in DTYPES.items()}
_PARTS = {"c64": "f32", "c128": "f64"}  # a complex number is stored as an axis of two

_BACKSLASH = ord("\\")
_ROW = re.compile(rb"\s*(\{[^{}]{0,1000}\})")


class Entry(NamedTuple):
    """An array of a file: dtype is the name in the file, begin and end count from the first array's byte."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


# -- writing -------------------------------------------------------------------------------------------


def stored(array: np.ndarray, dtype: str) -> tuple[str, np.ndarray]:
    """The dtype's name in a file, and the array as it is stored there; dtype: the language's."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    if dtype in _PARTS:
        part = DTYPES[_NAMES[_PARTS[dtype]]][1]
        return _NAMES[_PARTS[dtype]], array.reshape(-1).view(part).reshape(*array.shape, 2)
    return _NAMES[dtype], array


def _laid(arrays: dict[str, tuple[str, np.ndarray]]) -> dict[str, Entry]:
    """The largest elements first, so that each array is aligned; then by name."""
    entries, at = {}, 0
    for name in sorted(arrays, key=lambda name: (-arrays[name][1].itemsize, name)):
        dtype, array = arrays[name]
        entries[name] = Entry(dtype, array.shape, at, at + array.nbytes)
        at += array.nbytes
    return entries


def _table(metadata: dict[str, str], entries: dict[str, Entry]) -> bytes:
    rows: dict[str, Any] = {METADATA: dict(sorted(metadata.items()))}
    for name, entry in entries.items():
        offsets = [entry.begin, entry.end]
        rows[name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": offsets}
    text = json.dumps(rows, separators=(",", ":"), ensure_ascii=True).encode()
    return text + b" " * (-(len(text) + 8) % _ALIGNED)


def bytes_of(array: np.ndarray) -> memoryview:
    """The array's bytes, without a copy where it is dense."""
    return memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Any]:
    """A file beside path that takes its place when all of it is on the disk; else path is as it was."""
    folder, mode = path.parent, None
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
    # Its name is known before it is there: an interrupt at any time leaves none.
    beside = folder / f".{path.name[:64]}.{os.urandom(8).hex()}.part"
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    with contextlib.suppress(OSError):  # a file system may have no such thing
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write(
    path: str | os.PathLike[str],
    arrays: dict[str, tuple[str, np.ndarray]],
    metadata: Callable[[dict[str, Entry]], dict[str, str]],
) -> None:
    """Writes arrays as stored() gives them; metadata: called with the table of them.

    Raises OSError where that cannot be done; what was at path is whole then.
    """
    entries = _laid(arrays)
    table = _table(metadata(entries), entries)
    if len(table) > MOST:
        raise FileError(f"the table of the file would have {len(table)} bytes, and at most {MOST} are read")
    with _replacing(Path(os.path.realpath(path))) as file:
        file.write(len(table).to_bytes(8, "little"))
        file.write(table)
        for name in entries:
            file.write(bytes_of(arrays[name][1]))


# -- reading -------------------------------------------------------------------------------------------


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise FileError("its table has a key twice")
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _json(text: bytes) -> Any:
    try:
        return _DECODER.decode(text.decode())
    except RecursionError:
        raise FileError("its table is nested too deeply") from None
    except FileError:
        raise
    except ValueError as error:  # UTF-8 too
        raise FileError(f"its table is no JSON: {error}") from None


def _string(text: bytes) -> str:
    value = _json(text)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise FileError("a name in its table is no text") from None
    return value


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _entry(name: str, row: dict[str, Any], size: int) -> Entry:
    """What a row says, if that can be; size: bytes of all arrays."""
    shown = f"{name!r:.60}"
    if set(row) != {"dtype", "shape", "data_offsets"}:
        raise FileError(f"the entry {shown} has not dtype, shape and data_offsets")
    dtype, shape, offsets = row["dtype"], row["shape"], row["data_offsets"]
    if not isinstance(dtype, str):
        raise FileError(f"the entry {shown} has no dtype")
    if not isinstance(shape, list) or len(shape) > _MOST_AXES or not all(map(_is_count, shape)):
        raise FileError(f"the entry {shown} has no shape of at most {_MOST_AXES} sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise FileError(f"the entry {shown} has no two offsets")
    begin, end = offsets
    if not begin <= end <= size:
        raise FileError(f"the entry {shown} lies outside of the file")
    if dtype in DTYPES:
        count = DTYPES[dtype][1].itemsize
        for n in shape:
            count *= n  # a number of any size: nothing overflows
        if count != end - begin:
            raise FileError(f"the entry {shown} has {end - begin} bytes, and its shape has {count}")
    return Entry(dtype, tuple(shape), begin, end)


class _Table:
    """Goes through the text of a table, one entry after another."""

    def __init__(self, text: bytes) -> None:
        self.text, self.at = text, 0

    def take(self, pattern: re.Pattern[bytes], what: str) -> bytes:
        found = pattern.match(self.text, self.at)
        if not found:
            raise FileError(f"its table is no JSON of safetensors: {what} is missing at byte {self.at}")
        self.at = found.end()
        return found.group(1)

    def string(self, what: str) -> str:
        """A text in quotes, found without a pattern: one would keep a place for each escape."""
        if self.peek() != b'"':
            raise FileError(f"its table is no JSON of safetensors: {what} is missing at byte {self.at}")
        text, end = self.text, self.text.find(b'"', self.at + 1)
        while end >= 0 and text[end - 1] == _BACKSLASH and self._is_escaped(end):
            end = text.find(b'"', end + 1)
        if end < 0:
            raise FileError(f"its table is no JSON of safetensors: {what} has no end at byte {self.at}")
        begin, self.at = self.at, end + 1
        return _string(text[begin : self.at])

    def _is_escaped(self, at: int) -> bool:
        if self.text[at - 2] != _BACKSLASH:  # at once, as most are
            return True
        before = at
        while self.text[before - 1 : before] == b"\\":
            before -= 1
        return (at - before) % 2 == 1

    def peek(self) -> bytes:
        while self.text[self.at : self.at + 1] in (b" ", b"\t", b"\n", b"\r"):
            self.at += 1
        return self.text[self.at : self.at + 1]

    def sign(self, signs: bytes) -> bytes:
        found = self.peek()
        if not found or found not in signs:
            raise FileError(f"its table is no JSON of safetensors: no {signs.decode()} at byte {self.at}")
        self.at += 1
        return found

    def members(self) -> Iterator[str]:
        """The keys of an object, whose values the caller takes."""
        self.sign(b"{")
        if self.peek() == b"}":
            self.at += 1
            return
        while True:
            name = self.string("a name")
            self.sign(b":")
            yield name
            if self.sign(b",}") == b"}":
                return

    def metadata(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for key in self.members():
            if key in found:
                raise FileError("its metadata has a key twice")
            found[key] = self.string("a text")
        return found


class Tensors:
    """A file that is mapped, its metadata and its table."""

    def __init__(self, path: str | os.PathLike[str], wanted: Callable[[dict[str, str]], Any]) -> None:
        """wanted: called with the metadata before the table is read: a set of names, or None for any.

        Raises FileError for what is no such file, and OSError where it cannot be read.
        """
        self.path = os.fspath(path)
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise FileError("it is no regular file")
            length = int.from_bytes(file.read(8), "little")
            if found.st_size < 10:
                raise FileError("it is too short for a file of safetensors")
            if length < 2 or length > found.st_size - 8:
                raise FileError(
                    f"it is no file of safetensors: its table would have {length} of {found.st_size} bytes"
                )
            if length > MOST:
                raise FileError(f"its table has {length} bytes, and at most {MOST} are read")
            self._read(file.read(length), found.st_size - 8 - length, wanted)
            self.base = 8 + length
            self._status = found
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _read(self, raw: bytes, size: int, wanted: Callable[[dict[str, str]], Any]) -> None:
        table = _Table(raw)
        self.metadata: dict[str, str] = {}
        self.entries: dict[str, Entry] = {}
        names: Any = None
        for k, name in enumerate(table.members()):
            if name == METADATA:
                if k:
                    raise FileError("its metadata is not at the head of its table")
                self.metadata = table.metadata()
                continue
            if not self.entries:
                names = wanted(self.metadata)
            if name in self.entries:
                raise FileError(f"it has an entry {name!r:.60} twice")
            if names is not None and name not in names:
                raise FileError(f"it has an entry {name!r:.60}, which nothing reads")
            self.entries[name] = _entry(name, _json(table.take(_ROW, "a row")), size)
        if table.peek():
            raise FileError("there is text behind its table")
        if not self.entries:
            wanted(self.metadata)
        _check_holes(self.entries.values(), size)

    def array(self, name: str, dtype: str) -> np.ndarray:
        """The array over the mapped file, read only; dtype: the language's that it is wanted in."""
        entry = self.entries.get(name)
        if entry is None:
            raise FileError(f"there is no array {name!r:.60} in {self.path}")
        want = _PARTS.get(dtype, dtype)
        have, kind = DTYPES.get(entry.dtype, ("", None))
        if kind is None or have != want or (dtype in _PARTS and entry.shape[-1:] != (2,)):
            raise FileError(f"the array {name!r:.60} is of {entry.dtype}, and the program wants {dtype}")
        begin, count = self.base + entry.begin, (entry.end - entry.begin) // kind.itemsize
        array = np.frombuffer(self.map, kind, count, begin) if count else np.empty(0, kind)
        if have == "bool" and array.view(np.uint8).max(initial=0) > 1:
            raise FileError(f"the array {name!r:.60} is of BOOL, and has bytes that are not 0 or 1")
        if not array.flags.aligned:
            array = array.copy()
        array = array.reshape(entry.shape)
        if dtype in _PARTS:
            array = np.ascontiguousarray(array).view(np.complex64 if dtype == "c64" else np.complex128)[
                ..., 0
            ]
        array.flags.writeable = False
        return array

    def data(self) -> memoryview:
        """The bytes of all arrays."""
        return memoryview(self.map)[self.base :]

    def digest(self, cache: str | None) -> str | None:
        """The SHA-256 of the file; of one that was not written to since the last time, without reading it.

        None: there is no cache folder, in which it would be noted.
        """
        return digest(self.map, self._status, cache)

    def forget(self) -> None:
        """The pages that were read are the system's to take; the next read maps them again."""
        forget(self.map)


def forget(map: mmap.mmap) -> None:
    """See Tensors.forget."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        map.madvise(mmap.MADV_DONTNEED)


def digest(data: Any, status: os.stat_result, cache: str | None) -> str | None:
    """Of a file that is open: see Tensors.digest."""
    facts = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    return _C.cache_digest(data, facts, cache)


def _check_holes(entries: Iterable[Entry], size: int) -> None:
    at = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != at:
            raise FileError("two of its entries overlap" if entry.begin < at else "it has bytes of no entry")
        at = entry.end
    if at != size:
        raise FileError(f"it has {size} bytes of arrays, and its table {at}")
