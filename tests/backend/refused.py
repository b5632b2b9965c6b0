"""What the refusal of damaged, foreign and special files takes, as imports and as artifacts.

`python -m tests.backend.refused [SEED]` prints the longest time of one and the memory of all. That they are
refused is asserted; what it takes is not, as no test depends on time.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import io
import json
import os
import pickle
import random
import socket
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import dlc
from dlc import cache, portable
from dlc.aot_compile import Artifact
from dlc.artifact import ArtifactError, pack
from dlc.portable import Archive, Unit

from .damage import first, saved

DAMAGED, FOREIGN = 300, 100
LARGE = 3 << 30
PROGRAM = """dlc 1 kernels

fn kernels[N in 2..inf](x: f32[N]) -> (f32[N]) {
  let y: f32[N] = kernel {
    let z: f32[N] = sin x
    ret z
  }
  ret y
}
"""


def damaged(data: bytes, source: random.Random) -> bytes:
    """Cut, longer, moved, or with other bytes; its hash is that of another text."""
    at, size = source.randrange(1, len(data)), source.randrange(1, 64)
    match source.randrange(4):
        case 0:
            return data[:at]
        case 1:
            return data + source.randbytes(size)
        case 2:
            return data[at:] + data[:at]
        case _:
            return data[:at] + bytes([data[at] ^ source.randrange(1, 256)]) + data[at + 1 :]


def archived() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", bytes(1 << 24))
    return made.getvalue()


def foreign(number: int, magic: bytes, source: random.Random) -> bytes:
    """Of other programs, or of somebody who knows the format; the hash is right where there is one."""
    nested = b"[" * 200_000
    body = source.choice(
        (nested, b"{}", json.dumps({"graph": [None] * 1000}).encode(), source.randbytes(4096))
    )
    signed = magic + body + hashlib.sha256(magic + body).digest()
    lines = b"dlc artifact 1\n%s\n%s" % (hashlib.sha256(body).hexdigest().encode(), body)
    header = {
        "dlc": dlc.__version__,
        "options": {"tier": "tcc"},
        "graph": {"text": "(" * 100_000},
        "leaves": None,
    }
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: source.randbytes(1 << 20),
        lambda: Path(sys.executable).read_bytes()[: 1 << 22],
        lambda: pickle.dumps({"a": list(range(10000))}),
        archived,
        lambda: bytes(1 << 24),
        lambda: magic + bytes(1 << 24),
        lambda: signed,
        lambda: lines,
        lambda: pack(header, b""),
        lambda: magic + source.randbytes(1 << 12),
    )
    return kinds[number % len(kinds)]()


def put_special(kind: int, path: Path) -> None:
    match kind % 10:
        case 0:
            os.mkfifo(path)
        case 1:
            path.mkdir()
        case 2:
            path.symlink_to(path)
        case 3:
            path.symlink_to(path.with_name("nothing"))
        case 4:
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        case 5 | 6:
            path.write_bytes(portable.MAGIC if kind % 10 == 5 else b"")
            os.truncate(path, LARGE)
        case 7:
            path.symlink_to(("/dev/zero", "/dev/random")[kind // 10 % 2])
        case 8:
            path.symlink_to(("/proc/self/mem", "/proc/self/maps")[kind // 10 % 2])
        case _:
            path.symlink_to(("/dev/null", "/dev/full")[kind // 10 % 2])


SPECIAL = 20


def refusal(call: Callable[[], object], said: type[BaseException] | tuple[type[BaseException], ...]) -> float:
    """Seconds until it is refused."""
    begin = time.perf_counter()
    try:
        call()
    except said:
        return time.perf_counter() - begin
    raise AssertionError("it was taken")


def imports(folder: Path, source: random.Random) -> list[float]:
    whole = portable.pack(Archive("0" * 64, "0" * 64, (Unit("0" * 64, PROGRAM, source.randbytes(50_000)),)))
    path, took = folder / "file", []

    def take(trusted: bool) -> object:
        return cache.import_(path, trusted=trusted, folder=folder / "cache")

    for number in range(DAMAGED + FOREIGN):
        damage = number < DAMAGED
        path.write_bytes(damaged(whole, source) if damage else foreign(number, portable.MAGIC, source))
        took.append(refusal(lambda: take(True), portable.PortableError))
        path.unlink()
    for kind in range(SPECIAL):
        put_special(kind, path)
        took.append(refusal(lambda: take(False), (portable.PortableError, OSError)))
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
    assert not (folder / "cache").exists()
    return took


def artifacts(source: random.Random) -> list[float]:
    whole, took = saved(first), []
    for number in range(DAMAGED + FOREIGN):
        damage = number < DAMAGED
        data = damaged(whole, source) if damage else foreign(number, b"dlc artifact 1\n", source)
        took.append(refusal(lambda d=data: Artifact.deserialize_compile_artifacts(d), ArtifactError))  # type: ignore[misc]
    return took


def memory(word: str) -> int:
    """Of this process, in KiB: now (VmRSS), or at most since the last reset (VmHWM)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(word))
    return int(line.split()[1])


def reset() -> int:
    """Gives back what is free, so that nothing is taken unseen, and forgets the peak."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


if __name__ == "__main__":
    source = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    saved(first)  # what torch takes for its first compile is not what a refusal takes
    for name in "imports", "artifacts":
        before = reset()
        with tempfile.TemporaryDirectory() as folder:
            took = imports(Path(folder), source) if name == "imports" else artifacts(source)
        taken = (memory("VmHWM") - before) >> 10
        print(f"{len(took)} {name}: at most {1e3 * max(took):.1f} ms each, {taken} MiB for all")
