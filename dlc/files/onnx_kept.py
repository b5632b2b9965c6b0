"""Translations of files of ONNX in the cache folder: a file that is loaded again needs no onnx package.

An entry has the text of the program, its signature, and for each weight where its bytes are: in the file of
ONNX, in a file beside it, or in the entry, if it is small. Its key covers every byte of the file of ONNX, the
arguments of dlc.load, and which dlc this is. Files beside it are not covered: weights alone are in them. The
elements of small ones may have decided something, so their SHA-256 is compared when the entry is used.

Entries are private and sealed as those of kernels are. Whatever is wrong with one is a miss.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _C

#: Bytes of an entry at most: it holds a text and small weights.
_MOST = 4 << 20
_SMALL = 64  # bytes of a weight that are not looked for in the file
_HEAD = 8  # bytes of the length of the head
_ALIGNED = 64  # bytes, of the memory that weights are read to
_GAP = 1 << 12  # bytes between two weights that are read at once
_HERE, _WITHIN = "", "."  # in the file of ONNX, in the entry; others are names of files beside it


class Outside(NamedTuple):
    """An array of a file beside that of ONNX, and its place there, if its bytes are there as they are."""

    array: np.ndarray
    place: tuple[str, int] | None


class Kept(NamedTuple):
    text: str
    signature: str  # JSON
    fixed: dict[int, np.ndarray]


def key(data: bytes, constants: Mapping[str, Any], sizes: Mapping[str, Any]) -> str | None:
    """Of a file's bytes and the arguments of dlc.load; None: it is not to be kept."""
    from .. import __version__
    from . import onnx

    found = hashlib.sha256(f"onnx {__version__}".encode())
    try:
        for module in (_C, onnx):  # a version of its own for each build
            status = os.stat(str(module.__file__))
            found.update(f" {status.st_size} {status.st_mtime_ns}".encode())
        found.update(f" {sorted((name, _plain(wanted)) for name, wanted in sizes.items())!r}".encode())
        for name, value in sorted(constants.items()):
            array = np.asarray(value)
            if array.dtype.hasobject:
                return None
            found.update(f" {name!r} {array.dtype.str} {array.shape} ".encode())
            found.update(array.tobytes())
    except (OSError, TypeError, ValueError):
        return None
    found.update(hashlib.sha256(data).digest())
    return found.hexdigest()


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def _plain(wanted: Any) -> list[Any]:
    return list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]


# -- writing -------------------------------------------------------------------------------------------


def keep(key: str, data: bytes, kept: Kept, outside: Iterable[Outside], most: int, cache: str | None) -> None:
    """most: elements of an array that may have decided something."""
    places, seen = {}, []
    pieces: list[bytes] = []

    def added(array: np.ndarray) -> int:
        pieces.append(array.tobytes())
        return sum(map(len, pieces[:-1]))

    for array, place in outside:
        if place is None:
            return
        places[id(array)] = place
        if array.size <= most:
            seen.append([*place, array.nbytes, _digest(array)])
    weights, at = [], 0
    for param, array in kept.fixed.items():
        place = places.get(id(array))
        if place is None and array.nbytes > _SMALL:
            text = array.tobytes()
            start = data.find(text, at)  # weights are mostly in the order of the file
            start = data.find(text) if start < 0 else start
            if start >= 0:
                place, at = (_HERE, start), start + len(text)
        if place is None:
            if array.nbytes > _MOST:
                return
            place = _WITHIN, added(array)
        weights.append([param, array.dtype.str, list(array.shape), *place])
    head = json.dumps([kept.text, kept.signature, weights, seen], separators=(",", ":")).encode()
    entry = b"".join([len(head).to_bytes(_HEAD, "little"), head, *pieces])
    if len(entry) <= _MOST:
        _C.cache_put(key, entry, cache)


# -- reading -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _beside(folder: str, location: str) -> Iterator[int]:
    """A file of weights in the folder of the model. No link leads out of it: OSError."""
    names = [name for name in location.split("/") if name not in ("", ".")]
    if location.startswith("/") or ".." in names or not names:
        raise OSError(f"{location!r} is not below the folder")
    handle = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for left in range(len(names) - 1, -1, -1):
            flags = os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_DIRECTORY if left else os.O_NONBLOCK)
            below = os.open(names[-1 - left], os.O_RDONLY | flags, dir_fd=handle)
            os.close(handle)
            handle = below
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise OSError(f"{location!r} is no file of its own")
        yield handle
    finally:
        os.close(handle)


def _read(handle: int, location: str, offset: int, size: int) -> np.ndarray:
    """Bytes of a file, in memory that is as far from a multiple of 64 as they are in the file."""
    off = offset % _ALIGNED
    whole = np.empty(size + 2 * _ALIGNED, np.uint8)
    made = whole[(off - whole.ctypes.data) % _ALIGNED :][:size]
    with open(handle, "rb", buffering=0, closefd=False) as file:
        file.seek(offset)
        left = memoryview(made)
        while left:
            count = file.readinto(left)
            if not count:
                raise OSError(f"{location!r} ends too early")
            left = left[count:]
    return made


class _Beside:
    """The files beside that of ONNX: spans that are close together are read at once."""

    def __init__(self, folder: str, wanted: Iterable[tuple[str, int, int]]) -> None:
        """wanted: location, offset and size of each."""
        self._runs: dict[str, list[tuple[int, np.ndarray]]] = {}
        ends: dict[str, list[list[int]]] = {}
        for location, offset, size in sorted(wanted):
            runs = ends.setdefault(location, [])
            if runs and offset <= runs[-1][1] + _GAP:
                runs[-1][1] = max(runs[-1][1], offset + size)
            else:
                runs.append([offset, offset + size])
        for location, runs in ends.items():
            with _beside(folder, location) as handle:
                self._runs[location] = [
                    (first, _read(handle, location, first, end - first)) for first, end in runs
                ]

    def bytes(self, location: str, offset: int, size: int) -> np.ndarray:
        """Of a span that was wanted; they begin at a multiple of 16."""
        runs = self._runs[location]
        first, whole = runs[bisect.bisect_right(runs, offset, key=lambda run: run[0]) - 1]
        made = whole[offset - first :][:size]
        return made.copy() if offset % 16 else made


def _whole(key: str, data: bytes, folder: str, cache: str | None) -> Kept | None:
    entry = _C.cache_get(key, cache)
    if entry is None:
        return None
    size = int.from_bytes(entry[:_HEAD], "little")
    text, signature, weights, seen = json.loads(entry[_HEAD : _HEAD + size])
    within = entry[_HEAD + size :]
    rows = []
    for param, dtype, shape, location, offset in weights:
        kind = np.dtype(dtype)
        rows.append((param, kind, shape, location, offset, math.prod(shape) * kind.itemsize))
    beside = [(row[3], row[4], row[5]) for row in rows if row[3] not in (_HERE, _WITHIN)]
    files = _Beside(folder, [*beside, *((place[0], place[1], place[2]) for place in seen)])
    for location, offset, count, digest in seen:
        if _digest(files.bytes(location, offset, count)) != digest:
            return None
    fixed = {}
    for param, kind, shape, location, offset, count in rows:
        if location in (_HERE, _WITHIN):
            source = data if location == _HERE else within
            array = np.frombuffer(source[offset : offset + count], np.uint8)  # a copy, at a multiple of 16
        else:
            array = files.bytes(location, offset, count)
        fixed[param] = array.view(kind).reshape(shape)
    return Kept(text, signature, fixed)


def found(key: str, data: bytes, folder: str, cache: str | None) -> Kept | None:
    """What keep has kept; None: there is nothing, or a file beside it is another one now."""
    try:
        return _whole(key, data, folder, cache)
    except (OSError, ValueError, TypeError):
        return None
