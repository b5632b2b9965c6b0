"""The microkernels of one instruction set, called on NumPy arrays."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.ulp.strips import CSRC, ISA_FLAGS, address, build, processor_has
from tests.objects import table_address

HERE = Path(__file__).parent
Array = np.ndarray
SOURCE = CSRC / "codegen/micro/micro_isa.c"
ROW = re.compile(r"^MICRO\( (\w+),\s*\w+,\s*(\w+),\s*\d+,\s*(\w+) \)", re.M)
FOUND = ROW.findall((CSRC / "codegen/micro/micro.def").read_text())
# Each dtype with that of its sums, and with that of its panels.
SUMS = {dtype: sums for dtype, sums, _ in FOUND}
PANELS = {dtype: sums if panels == "SUMS" else dtype for dtype, sums, panels in FOUND}
STORED: dict[str, type[np.generic]] = {
    "f32": np.float32,
    "bf16": np.uint16,
    "f16": np.float16,
    "f64": np.float64,
    "u8": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
}
ROWS, CHAIN = 14, 256
FUNCTIONS = ("micro", "unpacked", "each", "pack", "scattered")


def width(dtype: str) -> int:
    """Columns of a panel."""
    return 128 // np.dtype(STORED[SUMS[dtype]]).itemsize


class Row(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_char_p), *((name, ctypes.c_void_p) for name in FUNCTIONS)]


class Matrix(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("row", ctypes.c_int64), ("column", ctypes.c_int64)]


class Product(ctypes.Structure):
    """The structure MicroProduct of micro.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("rows", "columns", "k")),
        ("a", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("a_row", "a_k")),
        *((name, ctypes.c_int64) for name in ("a_run", "a_next", "a_runs", "a_jump", "a_from")),
        ("b", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("b_panel", "b_k", "b_column")),
        ("tile", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("tile_row", "more", "first")),
        ("result", ctypes.c_void_p),
        ("result_row", ctypes.c_int64),
        ("prefetched", ctypes.c_void_p),
        ("prefetched_bytes", ctypes.c_int64),
    ]


class Scatter(ctypes.Structure):
    """The structure MicroScatter of micro.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("k", "each", "columns")),
        ("b", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("k_stride", "each_stride", "column_stride")),
        ("panel", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
    ]


def steps(x: Array) -> list[int]:
    return [stride // x.itemsize for stride in x.strides]


class Micro:
    """Strides are those of the arrays; a panel is an array [k][width]."""

    def __init__(self, name: str, table: int) -> None:
        self.name = name
        self.functions: dict[str, dict[str, int]] = {}
        while (row := Row.from_address(table)).dtype is not None:
            self.functions[row.dtype.decode()] = {f: getattr(row, f) for f in FUNCTIONS}
            table += ctypes.sizeof(Row)

    def call(self, function: str, dtype: str, *args: object) -> None:
        plain = [
            address(a) if isinstance(a, np.ndarray) else ctypes.c_void_p() if a is None else ctypes.c_int64(a)
            for a in args
        ]
        ctypes.CFUNCTYPE(None, *map(type, plain))(self.functions[dtype][function])(*plain)

    def pack(self, dtype: str, b: Array) -> Array:
        panel = np.full((len(b), width(dtype)), 77, STORED[PANELS[dtype]])
        self.call("pack", dtype, *b.shape, b, *steps(b), panel)
        return panel

    def scattered(self, dtype: str, b: Array) -> Array:
        """Of b [k][each][columns] as a panel [each][k + 2][width]."""
        k, each, columns = b.shape
        panel = np.full((each, k + 2, width(dtype)), 77, STORED[PANELS[dtype]])
        k_stride, each_stride, column_stride = steps(b)
        given = Scatter(
            k, each, columns, address(b), k_stride, each_stride, column_stride, address(panel), k + 2
        )
        ctypes.CFUNCTYPE(None, ctypes.POINTER(Scatter))(self.functions[dtype]["scattered"])(
            ctypes.byref(given)
        )
        return panel

    def product(self, function: str, dtype: str, a: Array, tile: Array | None, **more: int) -> Array:
        """The tile, with what lies beyond the columns."""
        columns, full = more["columns"], width(dtype)
        gap = 3  # between rows of the tile
        room = np.full((len(a), -(-columns // full) * full + gap), 77, STORED[SUMS[dtype]])
        if tile is not None:
            room[:, :columns] = tile
        (a_row, a_k), at = steps(a), address(a)
        given = Product(
            rows=len(a), k=a.shape[1], a=at, a_row=a_row, a_k=a_k, tile=address(room), tile_row=room.shape[1],
            more=tile is not None, **more,
        )  # fmt: skip
        call = ctypes.CFUNCTYPE(None, ctypes.POINTER(Product))(self.functions[dtype][function])
        call(ctypes.byref(given))
        assert (room[:, -gap:] == 77).all()
        return room[:, :columns].copy()

    def micro(
        self,
        dtype: str,
        a: Array,
        panels: Array,
        tile: Array | None = None,
        columns: int = 0,
        first: bool = False,
        result: int = 0,
        prefetched: int = 0,
    ) -> Array:
        """The product with a panel or with panels [count][k][width]; with a tile it is added to that.

        The addresses `result` and `prefetched` are prefetched and need not be of this process."""
        panels = panels if panels.ndim == 3 else panels[None]
        columns = columns or len(panels) * width(dtype)
        b, b_panel = address(panels), steps(panels)[0]
        return self.product(
            "micro", dtype, a, tile, b=b, b_panel=b_panel, columns=columns, first=first, result=result,
            result_row=4096, prefetched=prefetched, prefetched_bytes=1 << 16,
        )  # fmt: skip

    def over_runs(
        self, dtype: str, a: Array, k: int, first: int, panel: Array, tile: Array | None = None
    ) -> Array:
        """The product of a [rows][groups][runs][run], from element `first` of its sums on, with a panel."""
        _, a_jump, a_next, _ = steps(a)
        rows = np.lib.stride_tricks.as_strided(a, (len(a), k), (a.strides[0], a.strides[3]))
        return self.product(
            "micro", dtype, rows, tile, b=address(panel), columns=width(dtype), a_run=a.shape[3],
            a_next=a_next, a_runs=a.shape[2], a_jump=a_jump, a_from=first,
        )  # fmt: skip

    def each(self, dtype: str, a: Array, k: int, b: Array, tile: Array | None = None) -> Array:
        """The sums of each column of a [rows][groups][run][columns] by its own of b [k][columns]."""
        _, a_jump, _, _ = steps(a)
        rows = np.lib.stride_tricks.as_strided(a, (len(a), k), (a.strides[0], a.strides[2]))
        return self.product(
            "each", dtype, rows, tile, b=address(b), b_k=steps(b)[0], columns=b.shape[1], a_run=a.shape[2],
            a_runs=1, a_jump=a_jump,
        )  # fmt: skip

    def unpacked(self, dtype: str, a: Array, b: Array, tile: Array | None = None) -> Array:
        """With b [k][columns] in place."""
        b_k, b_column = steps(b)
        return self.product(
            "unpacked", dtype, a, tile, b=address(b), b_k=b_k, b_column=b_column, columns=b.shape[1]
        )


@cache
def micro(name: str) -> Micro:
    """As `make` has compiled it; the text for AVX-512 with that set emulated is compiled here."""
    if name != "emulated":
        return Micro(name, table_address(f"codegen/micro/micro_{name}.isa", f"micro_{name}"))
    flags = [f"-I{HERE / 'emulated'}", "-D__AVX512F__", "-DMICRO_EMULATED", "-Wno-psabi", *ISA_FLAGS["avx2"]]
    library = build(f"micro-{name}", SOURCE, f"-I{CSRC}", "-DDLC_ISA=avx512", *flags)
    return Micro(name, ctypes.addressof((Row * 1).in_dll(library, "micro_avx512")))


def available() -> list[str]:
    """Each instruction set of this processor; the text for AVX-512 is tested without it too."""
    sets = [isa for isa in ISA_FLAGS if processor_has(isa)]
    return sets + ["emulated"] * ("avx2" in sets and "avx512" not in sets)


@cache
def reference_library(fused: bool) -> ctypes.CDLL:
    flags = ["-mfma", "-mavx2"] if fused and processor_has("avx2") else []
    name = f"micro-reference-{int(fused)}"
    return build(name, HERE / "reference.c", f"-I{CSRC}", "-O2", f"-DFUSED={int(fused)}", *flags)


def reference(dtype: str, a: Array, b: Array, tile: Array | None = None, fused: bool = True) -> Array:
    """The sums of a [rows][k] and b [k][columns]."""
    made = np.full((len(a), b.shape[1]), 77, STORED[SUMS[dtype]]) if tile is None else tile.copy()
    operands = [Matrix(x.ctypes.data, *steps(x)) for x in (a, b)]
    sizes = map(ctypes.c_int64, (len(a), a.shape[1], b.shape[1]))
    function = getattr(reference_library(fused), f"reference_{dtype}")
    function(*sizes, *map(ctypes.byref, operands), address(made), ctypes.c_int64(tile is not None))
    return made
