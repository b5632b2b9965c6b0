"""Translations of files of ONNX in the cache folder: a file that is loaded again needs no onnx package.

An entry has the text of the program, its signature, and for each weight where its bytes are: in the file of
ONNX, in a file beside it, or in the entry, if it is small. Its key covers every byte of the file of ONNX, the
arguments of dlc.load, and which dlc this is. Files beside it are not covered: weights alone are in them. The
elements of small ones may have decided something, so their SHA-256 is compared when the entry is used.

Files are mapped. A weight may begin at any byte of one, and so does its array.

Entries are private and sealed as those of kernels are. Whatever is wrong with one is a miss.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import mmap
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .. import _C
from .tensors import digest, forget

#: Bytes of an entry at most: it holds a text and small weights.
_MOST = 4 << 20
_SMALL = 64  # bytes of a weight that are not looked for in the file
_HEAD = 8  # bytes of the length of the head
_HERE, _WITHIN = "", "."  # in the file of ONNX, in the entry; others are names of files beside it


class Outside(NamedTuple):
    """An array of a file beside that of ONNX, and its place there, if its bytes are there as they are."""

    array: np.ndarray
    place: tuple[str, int] | None


class Kept(NamedTuple):
    text: str
    signature: str  # JSON
    fixed: dict[int, np.ndarray]
    release: Callable[[], None]
    origin: Callable[[str | None], str | None]  # as Model has them


def key(content: str, constants: Mapping[str, Any], sizes: Mapping[str, Any]) -> str | None:
    """Of the SHA-256 of a file and the arguments of dlc.load; None: it is not to be kept."""
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
    found.update(content.encode())
    return found.hexdigest()


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def _plain(wanted: Any) -> list[Any]:
    return list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]


# -- writing -------------------------------------------------------------------------------------------


def keep(
    key: str,
    data: bytes | mmap.mmap,
    program: str,
    signature: str,
    fixed: Mapping[int, np.ndarray],
    outside: Iterable[Outside],
    most: int,
    cache: str | None,
) -> None:
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
    for param, array in fixed.items():
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
    head = json.dumps([program, signature, weights, seen], separators=(",", ":")).encode()
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


class _Beside:
    """The files beside that of ONNX, mapped."""

    def __init__(self, folder: str, names: Iterable[str]) -> None:
        self._files = {}
        for name in sorted(set(names)):
            with _beside(folder, name) as handle:
                status = os.fstat(handle)
                self._files[name] = mmap.mmap(handle, 0, access=mmap.ACCESS_READ), status

    def array(self, name: str, dtype: np.dtype, count: int, offset: int) -> np.ndarray:
        return _array(self._files[name][0], dtype, count, offset)

    def forget(self) -> None:
        for whole, _ in self._files.values():
            forget(whole)

    def digests(self, cache: str | None) -> list[str | None]:
        return [digest(whole, status, cache) for whole, status in self._files.values()]


def _array(source: Any, dtype: np.dtype, count: int, offset: int) -> np.ndarray:
    return np.frombuffer(source, dtype, count, offset) if count else np.empty(0, dtype)


def _whole(key: str, data: mmap.mmap, folder: str, cache: str | None) -> Kept | None:
    entry = _C.cache_get(key, cache)
    if entry is None:
        return None
    size = int.from_bytes(entry[:_HEAD], "little")
    text, signature, weights, seen = json.loads(entry[_HEAD : _HEAD + size])
    own = {_HERE: data, _WITHIN: entry[_HEAD + size :]}
    names = [row[3] for row in weights if row[3] not in own]
    beside = _Beside(folder, [*names, *(place[0] for place in seen)])
    for location, offset, count, wanted in seen:
        if _digest(beside.array(location, np.dtype(np.uint8), count, offset)) != wanted:
            return None
    fixed = {}
    for param, dtype, shape, location, offset in weights:
        place = np.dtype(dtype), math.prod(shape), offset
        flat = _array(own[location], *place) if location in own else beside.array(location, *place)
        fixed[param] = flat.reshape(shape)

    def release() -> None:
        forget(data)
        beside.forget()

    def origin(cache: str | None) -> str | None:
        """The key covers the file, and where each weight is."""
        digests = beside.digests(cache)
        return " ".join([key, *(one for one in digests if one)]) if all(digests) else None

    return Kept(text, signature, fixed, release, origin)


def found(key: str, data: Any, folder: str, cache: str | None) -> Kept | None:
    """What keep has kept; None: there is nothing, or a file beside it is another one now."""
    try:
        return _whole(key, data, folder, cache)
    except (OSError, ValueError, TypeError, KeyError):
        return None
