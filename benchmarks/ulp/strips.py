"""Strips in a scratch shared object, one instruction set at a time, called on NumPy arrays."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
FLAGS = [
    "-std=gnu11",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
]
ISA_FLAGS = {
    "sse2": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": ["-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"],
    "neon": [],
}
TYPES: dict[str, type[np.generic]] = {
    "bool": np.uint8,
    "u8": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.uint16,
    "bf16": np.uint16,
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
}
Array = np.ndarray


class Worst(ctypes.Structure):
    _fields_ = [
        ("ulp", ctypes.c_double),
        ("at", ctypes.c_double * 2),
        ("wrong", ctypes.c_int64),
        ("wrong_at", ctypes.c_double * 2),
    ]


class Row(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="dlc-ulp-"))


def build(name: str, source: Path, *flags: str) -> ctypes.CDLL:
    """The source compiled with flags and loaded."""
    target = folder() / f"{name}.so"
    subprocess.run(["gcc", *FLAGS, *flags, str(source), "-o", str(target), "-lm"], check=True)
    return ctypes.CDLL(str(target))


def processor_has(isa: str) -> bool:
    flags = Path("/proc/cpuinfo").read_text()
    needs = {
        "sse2": ["sse2"],
        "avx2": ["avx2", "fma"],
        "neon": ["asimd"],
        "avx512": ["avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"],
    }
    return all(f" {flag}" in flags for flag in needs[isa])


def address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class Strips:
    """The strips of one instruction set, in a table at an address."""

    def __init__(self, isa: str, table: int) -> None:
        self.isa = isa
        self.functions: dict[str, int] = {}
        while (row := Row.from_address(table)).name is not None:
            self.functions[row.name.decode()] = row.address
            table += ctypes.sizeof(Row)

    def call(self, name: str, *args: object, result: object = None) -> object:
        """The strip by name on ctypes values; NumPy arrays become pointers and ints int64."""
        plain = [
            address(a) if isinstance(a, np.ndarray) else ctypes.c_int64(a) if isinstance(a, int) else a
            for a in args
        ]
        kinds = [type(a) for a in plain]
        return ctypes.CFUNCTYPE(result, *kinds)(self.functions[name])(*plain)

    def map(
        self, op: str, dtype: str, *operands: Array, out: type[np.generic] | None = None, scalars: int = 0
    ) -> Array:
        """A MAP strip on arrays of one length; operands marked in `scalars` hold one element."""
        n = max(len(a) for a in operands)
        made = np.empty(n, out or TYPES[dtype])
        self.call(f"strip_{op}_{dtype}", made, *operands, n, ctypes.c_uint(scalars))
        return made

    def scratch(self, name: str, n: int, dtype: type[np.generic], *args: object) -> Array:
        """A strip that writes n elements to its first argument, which this makes."""
        made = np.empty(n, dtype)
        self.call(name, made, *args)
        return made


@cache
def strips(isa: str) -> Strips:
    """From the sources as they are now."""
    source, flags = CSRC / "codegen/strips/strips_isa.c", ISA_FLAGS[isa]
    library = build(isa, source, f"-I{CSRC}", "-O3", f"-DDLC_ISA={isa}", *flags)
    return Strips(isa, ctypes.addressof((Row * 1).in_dll(library, f"strip_rows_{isa}")))


def available() -> list[str]:
    return [isa for isa in ISA_FLAGS if processor_has(isa)]


@cache
def measure_library() -> ctypes.CDLL:
    return build("measure", Path(__file__).with_name("measure.c"), "-O3", "-march=native", "-fopenmp")


def measure_all(
    name: str, dtype: str, made: Sequence[Array], a: Array, b: Array | None = None
) -> list[Worst]:
    """How far each of the results is from name(a, b)."""
    worst = (Worst * len(made))()
    results = (ctypes.c_void_p * len(made))(*(array.ctypes.data for array in made))
    function = getattr(measure_library(), f"measure_{dtype}")
    found = function(
        name.encode(),
        address(a),
        None if b is None else address(b),
        results,
        len(made),
        ctypes.c_int64(len(a)),
        worst,
    )
    if not found:
        raise KeyError(name)
    return list(worst)


def measure(name: str, dtype: str, got: Array, a: Array, b: Array | None = None) -> Worst:
    return measure_all(name, dtype, [got], a, b)[0]
