"""Compiled kernels as bytes that another process, machine or processor can use.

The form is the program of each unit, its text in dlc's language, and beside it the machine code that was
made of it here. Where the processor, the compiler or dlc is another one, the text is compiled again.

    magic  origin  count  unit ..  SHA-256 of all before it
    origin: the keys of the processor and of the compiler; unit: key, program, machine code
    a string is its length (8 bytes, little endian) and its bytes
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO

from . import _C

MAGIC = b"dlc kernels 1\n"
MOST = 2 << 30  # bytes of a file
_PIECE = 1 << 20
_OTHER = "it is no export of dlc's kernels, or of another version of dlc"
_DAMAGED = "it is damaged: the checksum at its end is not that of its content"


class PortableError(ValueError):
    """The bytes are damaged, or are not what dlc.cache.export writes."""


@dataclass(frozen=True)
class Unit:
    """key: of the object in the cache it comes from; program: its text; code: the object."""

    key: str
    program: str
    code: bytes


@dataclass(frozen=True)
class Archive:
    """common, compiler: what machine code depends on besides its program, as keys."""

    common: str
    compiler: str
    units: tuple[Unit, ...]


def collect(keys: Iterable[str], folder: str | None = None, cc: str | None = None) -> Archive:
    """The units of the cache folder that have these keys, each once; keys it does not have are left out."""
    units: dict[bytes, Unit] = {}
    for key in keys:
        found = _C.cache_program(key, folder)
        if found is not None:
            program, code = found
            units.setdefault(hashlib.sha256(code).digest(), Unit(key, program, code))
    return Archive(*_C.cache_origin(cc, folder), tuple(units.values()))


def pack(archive: Archive) -> bytes:
    """The archive as bytes."""
    fields: list[bytes] = [archive.common.encode(), archive.compiler.encode()]
    for unit in archive.units:
        fields += [unit.key.encode(), unit.program.encode(), unit.code]
    body = b"".join(struct.pack("<Q", len(field)) + field for field in fields)
    text = MAGIC + struct.pack("<Q", len(archive.units)) + body
    return text + hashlib.sha256(text).digest()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise PortableError("it ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self) -> int:
        return int(struct.unpack("<Q", self.take(8))[0])

    def field(self) -> bytes:
        return self.take(self.number())

    def text(self) -> str:
        try:
            text = self.field().decode()
        except UnicodeDecodeError:
            raise PortableError("one of its texts is not UTF-8") from None
        if "\0" in text:
            raise PortableError("one of its texts has a zero byte")
        return text

    def key(self) -> str:
        key = self.text()
        if len(key) not in (0, 64) or not set(key) <= set("0123456789abcdef"):
            raise PortableError("one of its keys is not 64 hexadecimal digits")
        return key


def unpack(data: bytes) -> Archive:
    """The archive of bytes; raises PortableError, and has then looked at nothing but their form."""
    if not data.startswith(MAGIC):
        raise PortableError(_OTHER)
    content, digest = data[:-32], data[-32:]
    if len(data) < len(MAGIC) + 32 or hashlib.sha256(content).digest() != digest:
        raise PortableError(_DAMAGED)
    reader = _Reader(content)
    reader.take(len(MAGIC))
    count = reader.number()
    common, compiler = reader.key(), reader.key()
    units = []
    while len(units) < count:
        units.append(Unit(reader.key(), reader.text(), reader.field()))
    if reader.at != len(content):
        raise PortableError("there are bytes after its last unit")
    return Archive(common, compiler, tuple(units))


def _is_sealed(file: BinaryIO, size: int) -> bool:
    """Do its last bytes fit those before them?  Reads a piece at a time."""
    left, hashed = size - 32, hashlib.sha256()
    while left > 0 and (piece := file.read(min(left, _PIECE))):
        hashed.update(piece)
        left -= len(piece)
    return left == 0 and file.read() == hashed.digest()


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of an exported file, when they begin and end as one does.

    Waits for nobody, and what is no export costs no memory, whatever its size.  Raises PortableError,
    and OSError when it cannot be read.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise PortableError("it is no regular file")
        if file.read(len(MAGIC)) != MAGIC:
            raise PortableError(_OTHER)
        if found.st_size > MOST:
            raise PortableError(f"it has more than {MOST >> 30} GiB")
        file.seek(0)
        if not _is_sealed(file, found.st_size):
            raise PortableError(_DAMAGED)
        file.seek(0)
        return file.read(found.st_size)


def install(
    archive: Archive, *, trusted: bool, folder: str | None = None, cc: str | None = None
) -> dict[str, int]:
    """Puts the archive's kernels into the cache folder, after all programs were found to be well formed.

    Returns how many units were present, taken (their machine code), compiled and failed.  Raises
    PortableError.
    """
    for number, unit in enumerate(archive.units):
        try:
            _C.cache_check(unit.program)
        except Exception as error:
            raise PortableError(f"unit {number} is no program: {error}") from None
    counts = dict.fromkeys(("present", "taken", "compiled", "failed"), 0)
    for unit in archive.units:
        code = unit.code if trusted else None
        counts[
            _C.cache_import(unit.program, unit.key, code, archive.common, archive.compiler, cc, folder)
        ] += 1
    return counts
