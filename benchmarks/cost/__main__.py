"""What an element of each op costs by instruction set: python -m benchmarks.cost

The figures are those of the strips (one op, operands and result in the first cache), in quarters of a
cycle, at least 1; one row for each op and dtype of the arithmetic. With --write they go to
csrc/ir/math/cost.def, by which the passes weigh computing a value again against memory; a set that this
processor does not have keeps its column. With --neon the column of 64-bit ARM is predicted (predicted.py).
"""

from __future__ import annotations

import argparse
import ctypes
import re

import numpy as np
from tqdm import tqdm

from benchmarks.ulp.strips import ROOT, TYPES, Strips, address, available, build, strips

from . import predicted
from .ops import COUNT, Op, dtypes, function, least, ops

TABLE = ROOT / "csrc" / "ir" / "math" / "cost.def"
SETS = ("sse2", "avx2", "avx512", "neon")
ROUNDS = 200
ROW = re.compile(r"COST\(\s*(\w+),\s*(\w+),\s*(\d+),\s*(\d+),\s*(\d+),\s*(\d+)\)")
HEAD = """/* The cost of one element of an op, by instruction set: quarters of a cycle in a loop over vectors
 * whose operands are in the first-level cache.  Written by python -m benchmarks.cost --write.
 * Those of neon, 64-bit ARM, are predictions for a Cortex-A72: no such processor was at hand.
 *
 *   COST(op, dtype of the arithmetic, sse2, avx2, avx512, neon)      0: not measured
 *
 * An op without a row has the cost in ops.def. */
#ifndef COST
#define COST(op, dtype, sse2, avx2, avx512, neon)
#endif

"""
Key = tuple[str, str]


def operand(dtype: str, least: int, seed: int) -> np.ndarray:
    """Numbers from least to least + 1, none of them special, or whole ones from 1 to 8."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, COUNT).astype(np.uint8)
    made = rng.integers(1, 9, COUNT) if dtype.startswith("i") else rng.uniform(least, least + 1, COUNT)
    return made.astype(TYPES[dtype])


def quarters(timer: ctypes.CDLL, own: Strips, op: Op) -> int:
    operands = [operand(dtype, least(op), k) for k, dtype in enumerate(dtypes(op))]
    out = np.empty(COUNT, np.float64)  # room for any dtype
    pointers = (ctypes.c_void_p * 3)(*(address(x) for x in operands))
    strip = ctypes.c_void_p(own.functions[function(op)])
    count = ctypes.c_int64(COUNT)
    took: float = timer.cost_pass(strip, len(operands), address(out), pointers, count, ROUNDS)
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


def neon() -> dict[str, dict[Key, int]]:
    """The same, predicted for ARM."""
    return {"neon": {(op[0], op[3]): predicted.quarters(op) for op in tqdm(ops(), desc="neon", disable=None)}}


def kept() -> dict[str, dict[Key, int]]:
    """What the table says now."""
    rows = ROW.findall(TABLE.read_text()) if TABLE.exists() else []
    return {isa: {(row[0], row[1]): int(row[2 + k]) for row in rows} for k, isa in enumerate(SETS)}


def table(columns: dict[str, dict[Key, int]]) -> str:
    rows = []
    for name, _, _, dtype in ops():
        figures = [columns.get(isa, {}).get((name, dtype), 0) for isa in SETS]
        rows.append(f"COST({name + ',':<12} {dtype}, {', '.join(f'{figure:>4}' for figure in figures)})")
    return HEAD + "\n".join(rows) + "\n\n#undef COST\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__)
    parser.add_argument("--write", action="store_true", help="to csrc/ir/math/cost.def, else to the terminal")
    parser.add_argument("--neon", action="store_true", help="predict the column of ARM instead of measuring")
    args = parser.parse_args()
    text = table(kept() | (neon() if args.neon else measured()))
    if args.write:
        TABLE.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
