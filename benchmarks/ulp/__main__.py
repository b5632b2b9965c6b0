"""The largest error of every function of the math header, and of eager, in units in the last place.

    python -m benchmarks.ulp                        every 4099th float32 and a sample of the doubles
    python -m benchmarks.ulp --step 1 exp tanh      all 2**32 float32 of two functions
    nice python -m benchmarks.ulp --step 1 --keep build/ulp.jsonl    all of all, a minute each: may be
                                                    stopped, and goes on after the last function it noted

The whole table goes to docs/math.md with --write.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from benchmarks.ulp.kept import Kept, Line, digest
from benchmarks.ulp.samples import BINARY, UNARY, every_float, spread
from benchmarks.ulp.strips import ROOT, Strips, Worst, available, measure_all, measure_library, strips

DOCUMENT = ROOT / "docs" / "math.md"
TEXT = """# Accuracy of the math functions

The largest errors, in units in the last place, of the functions of
`csrc/ir/math/prelude.h` and of the eager operators of torch {torch}, on the instruction set {isa}.
A correctly rounded function has 0.5.  "Wrong" counts results that are NaN, infinite, or a zero of one
sign although the exact result is something else.

float32: {floats}.  float64: {doubles} numbers, a fifth of them evenly spaced bit
patterns, the others of everyday size.  Functions of two operands: pairs from such samples.

| function | float32 | eager | wrong | float64 | eager | wrong |
|---|--:|--:|--:|--:|--:|--:|
{rows}

`python -m benchmarks.ulp --step {step} --doubles {count} --write` makes this table.

From -2 down, `lgamma` passes through zero twice between two neighbouring integers. Near such a
zero, an error is small compared with 1 but large compared with the result: in float64, dlc and eager both
err by about 1e-16, which may be any number of units of the result. No sample of the table is close to a zero.

Means and variances of float32 (layer, group, batch, instance and RMS norm, `var`, `std`) are computed in
two passes in float32, and in float64 if a row is known to have 2^20 elements or more. For layer norm of
ten rows of 10^7 normal and ten of uniform numbers, the largest error of a row against float64 is 0.2 to
0.75 times eager's; `tests/regress/test_long_rows.py` limits it to twice eager's for all these norms.
"""
Function = Callable[..., np.ndarray]
PART = 1 << 18


def eager(op: str) -> Function:
    function = getattr(torch.special if op == "erfinv" else torch, op)
    return lambda *x: function(*(torch.from_numpy(a) for a in x)).numpy()


def merge(into: Worst, part: Worst) -> None:
    into.wrong += part.wrong
    if part.wrong:
        into.wrong_at[:] = part.wrong_at[:]
    if part.ulp > into.ulp:
        into.ulp, into.at[:] = part.ulp, part.at[:]


def sample(op: str, dtype: str, count: int) -> tuple[np.ndarray, ...]:
    x = spread(dtype, count)
    if op not in BINARY:
        return (x,)
    x = x[np.isfinite(x) & (x != 0)]
    return x, np.random.default_rng(3).permutation(x)


def chunks(op: str, dtype: str, step: int, doubles: int) -> Iterator[tuple[np.ndarray, ...]]:
    x = sample(op, dtype, doubles // 5 if dtype == "f64" else 100_000)
    for at in range(0, len(x[0]), PART):
        yield tuple(a[at : at + PART] for a in x)
    if dtype == "f32" and op not in BINARY:
        yield from ((x,) for x in every_float(step, PART))


def sweep(
    isa: Strips, op: str, dtype: str, step: int, doubles: int, pool: ThreadPoolExecutor, kept: Kept
) -> Line:
    few = sample(op, dtype, 20_000)
    what = f"{op} {dtype} {isa.isa} {doubles if dtype == 'f64' else step}"
    state = digest([isa.map(op, dtype, *few), eager(op)(*few)])
    if before := kept.find(what, state):
        return before
    total = Line(Worst(), Worst())

    def one(x: tuple[np.ndarray, ...]) -> list[Worst]:
        return measure_all(op, dtype, [isa.map(op, dtype, *x), eager(op)(*x)], *x)

    parts = bounded(pool, one, chunks(op, dtype, step, doubles))
    shown = tqdm(parts, desc=f"{op} {dtype}", leave=False, delay=1, disable=None)
    for own, peer in shown:
        merge(total.own, own)
        merge(total.eager, peer)
    kept.add(what, state, total)
    return total


def bounded(pool: ThreadPoolExecutor, function: Callable, work: Iterator) -> Iterator:
    """pool.map that holds only a few chunks at a time."""
    pending = []
    for item in work:
        pending.append(pool.submit(function, item))
        if len(pending) > 8:
            yield pending.pop(0).result()
    for future in pending:
        yield future.result()


def number(worst: Worst) -> str:
    return f"{worst.ulp:.2f}" if worst.ulp < 1000 else f"{worst.ulp:.0e}"


def row(op: str, f32: Line, f64: Line) -> str:
    cells = [f"`{op}`"]
    for line in (f32, f64):
        cells += [number(line.own), number(line.eager), str(line.own.wrong)]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ulp",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("functions", nargs="*", help="some of: " + " ".join(UNARY + BINARY))
    parser.add_argument("--step", type=int, default=4099, help="every how-many-th float32 is measured")
    parser.add_argument("--doubles", type=int, default=1_000_000, help="how many float64 are measured")
    parser.add_argument("--keep", type=Path, help="a file of what is measured, which is not measured again")
    parser.add_argument("--isa", choices=available(), default=available()[-1])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--write", action="store_true", help="write docs/math.md")
    options = parser.parse_args()
    unknown = set(options.functions) - set(UNARY + BINARY)
    if unknown:
        parser.error(f"no such function: {' '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    measure_library()
    isa, rows, kept = strips(options.isa), [], Kept(options.keep)
    with ThreadPoolExecutor(options.threads) as pool:
        for op in options.functions or UNARY + BINARY:
            f32, f64 = (
                sweep(isa, op, dtype, options.step, options.doubles, pool, kept) for dtype in ("f32", "f64")
            )
            rows.append(row(op, f32, f64))
            print(rows[-1], f" worst at {f32.own.at[0]:.9g}, {f64.own.at[0]:.17g}", flush=True)
    if options.write:
        floats = "all of them" if options.step == 1 else f"every {options.step}th bit pattern"
        DOCUMENT.write_text(
            TEXT.format(
                torch=torch.__version__,
                isa=options.isa,
                floats=floats,
                doubles=f"{options.doubles:,}",
                rows="\n".join(rows),
                step=options.step,
                count=options.doubles,
            )
        )
        print(f"wrote {DOCUMENT}")


if __name__ == "__main__":
    main()
