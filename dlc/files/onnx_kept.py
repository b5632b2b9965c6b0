"""Translations of files of ONNX in the cache folder: a file that is loaded again needs no onnx package.

An entry has the text of the program, its signature, and for each weight where its bytes are: in the file of
ONNX, in a file beside it, or in the entry, if it is small. Its key covers every byte of the file of ONNX, the
arguments of dlc.load, and which dlc this is. Files beside it are not covered: weights alone are in them. The
elements of small ones may have decided something, so their SHA-256 is compared when the entry is used.

Entries are private and sealed as those of kernels are. Whatever is wrong with one is a miss.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
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


def _read(folder: str, location: str, offset: int, size: int) -> np.ndarray:
    made = np.empty(size, np.uint8)
    with _beside(folder, location) as handle, open(handle, "rb", buffering=0, closefd=False) as file:
        file.seek(offset)
        left = memoryview(made)
        while left:
            count = file.readinto(left)
            if not count:
                raise OSError(f"{location!r} ends too early")
            left = left[count:]
    return made


def _whole(key: str, data: bytes, folder: str, cache: str | None) -> Kept | None:
    entry = _C.cache_get(key, cache)
    if entry is None:
        return None
    size = int.from_bytes(entry[:_HEAD], "little")
    text, signature, weights, seen = json.loads(entry[_HEAD : _HEAD + size])
    within = entry[_HEAD + size :]
    for location, offset, count, digest in seen:
        if _digest(_read(folder, location, offset, count)) != digest:
            return None
    fixed = {}
    for param, dtype, shape, location, offset in weights:
        kind = np.dtype(dtype)
        count = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        if location in (_HERE, _WITHIN):
            source = data if location == _HERE else within
            array = np.frombuffer(source[offset : offset + count], np.uint8)  # a copy, at a multiple of 16
        else:
            array = _read(folder, location, offset, count)
        fixed[param] = array.view(kind).reshape(shape)
    return Kept(text, signature, fixed)


def found(key: str, data: bytes, folder: str, cache: str | None) -> Kept | None:
    """What keep has kept; None: there is nothing, or a file beside it is another one now."""
    try:
        return _whole(key, data, folder, cache)
    except (OSError, ValueError, TypeError):
        return None
