"""What an element of each op costs on each instruction set of this processor: python -m benchmarks.cost

The figures are those of the strips (one op, operands and result in the first cache), in quarters of a
cycle, at least 1; one row for each op and dtype of the arithmetic. With --write they go to
csrc/ir/math/cost.def, by which the passes weigh computing a value again against memory; a set that this
processor does not have keeps its column.
"""

from __future__ import annotations

import argparse
import ctypes
import re

import numpy as np
from tqdm import tqdm

from benchmarks.ulp.strips import ROOT, TYPES, Strips, address, available, build, strips

TABLE = ROOT / "csrc" / "ir" / "math" / "cost.def"
SETS = ("sse2", "avx2", "avx512")
COUNT, ROUNDS = 1024, 200
MAP = re.compile(r"MAP\(\s*(\w+),\s*(\d),\s*(\w+),")
ROW = re.compile(r"COST\(\s*(\w+),\s*(\w+),\s*(\d+),\s*(\d+),\s*(\d+)\)")
RULES = {
    "SAME": "i32 i64 f32 f64", "NUM": "i32 i64 f32 f64", "FLOAT": "f32 f64", "INT": "i32 i64",
    "CMP": "i32 i64 f32 f64", "PRED": "f32 f64", "SEL": "i32 i64 f32 f64", "CAST": "i32 i64 f32 f64",
}  # fmt: skip
CAST_TO = {"i32": "f32", "i64": "f32", "f32": "f64", "f64": "f32"}
HEAD = """/* The cost of one element of an op, by instruction set: quarters of a cycle in a loop over vectors
 * whose operands are in the first-level cache.  Written by python -m benchmarks.cost --write.
 *
 *   COST(op, dtype of the arithmetic, sse2, avx2, avx512)      0: not measured
 *
 * An op without a row has the cost in ops.def. */
#ifndef COST
#define COST(op, dtype, sse2, avx2, avx512)
#endif

"""
Key = tuple[str, str]


def ops() -> list[tuple[str, int, str, str]]:
    """(name, operands, rule, dtype) of each op that has a strip of its own for the dtype."""
    rows = MAP.findall((ROOT / "csrc/ir/ops.def").read_text())
    return [(name, int(n), rule, d) for name, n, rule in rows for d in RULES.get(rule, "").split()]


def operand(dtype: str, seed: int) -> np.ndarray:
    """Numbers where every function is defined, none of them special: from 1 to 2, or whole from 1 to 8."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, COUNT).astype(np.uint8)
    made = rng.integers(1, 9, COUNT) if dtype.startswith("i") else rng.uniform(1, 2, COUNT)
    return made.astype(TYPES[dtype])


def arguments(name: str, arity: int, rule: str, dtype: str) -> list[np.ndarray]:
    made = [operand("bool" if rule == "SEL" and k == 0 else dtype, k) for k in range(arity)]
    inside = name in ("asin", "acos", "atanh", "erfinv")
    return [x - TYPES[dtype](1) if inside else x for x in made]


def quarters(timer: ctypes.CDLL, own: Strips, op: tuple[str, int, str, str]) -> int:
    name, arity, rule, dtype = op
    operands = arguments(*op)
    out = np.empty(COUNT, np.float64)  # room for any dtype
    pointers = (ctypes.c_void_p * 3)(*(address(x) for x in operands))
    to = f"{dtype}_{CAST_TO[dtype]}" if rule == "CAST" else dtype
    strip = ctypes.c_void_p(own.functions[f"strip_{name}_{to}"])
    count = ctypes.c_int64(COUNT)
    took: float = timer.cost_pass(strip, arity, address(out), pointers, count, ROUNDS)
    return max(1, round(4 * took / COUNT / timer.cost_cycle(ROUNDS)))


def measured() -> dict[str, dict[Key, int]]:
    """For each instruction set of this processor, the cost of each op and dtype."""
    timer = build("cost", ROOT / "benchmarks/cost/time.c", "-O2")
    timer.cost_pass.restype = timer.cost_cycle.restype = ctypes.c_double
    return {
        isa: {(op[0], op[3]): quarters(timer, strips(isa), op) for op in tqdm(ops(), desc=isa, disable=None)}
        for isa in available()
        if isa in SETS
    }


def kept() -> dict[str, dict[Key, int]]:
    """What the table says now."""
    rows = ROW.findall(TABLE.read_text()) if TABLE.exists() else []
    return {isa: {(row[0], row[1]): int(row[2 + k]) for row in rows} for k, isa in enumerate(SETS)}


def table(columns: dict[str, dict[Key, int]]) -> str:
    rows = []
    for name, _, _, dtype in ops():
        figures = [columns.get(isa, {}).get((name, dtype), 0) for isa in SETS]
        rows.append(f"COST({name + ',':<12} {dtype}, {figures[0]:>4}, {figures[1]:>4}, {figures[2]:>4})")
    return HEAD + "\n".join(rows) + "\n\n#undef COST\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__)
    parser.add_argument("--write", action="store_true", help="to csrc/ir/math/cost.def, else to the terminal")
    args = parser.parse_args()
    text = table(kept() | measured())
    if args.write:
        TABLE.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
