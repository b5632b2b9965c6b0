"""Torch's operators, modules and optimisers, eager against compiled: python -m tests.ops.sweep

With --shard K/N one of N parts of everything: each entry in each dtype, layout, mode and tier, its gradients,
their slopes, its errors, and what multiplies matrices by dlc's own products too. Without it the ways that the
other options say, whole. The journal keeps what was done; started again with it, the sweep goes on where it
was. What fails with the backend aot_eager too is not this compiler's doing.
"""

import argparse
import functools
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tests.ops.check import DTYPES, LAYOUTS, MORE_DTYPES, Way, entries
from tests.ops.modules import module_entries
from tests.ops.optimisers import optimiser_entries
from tests.ops.pool import ROOT, Outcome, Pool
from tests.shards import Shard

TOGETHER = 8
TIERS = ("auto", "tcc", "gcc")
DIFFERENTIABLE = ("float32", "float64", "bfloat16", "complex64")
# The operators that multiply matrices, as far as `products="own"` changes them.
PRODUCTS = """
    __rmatmul__ addbmm addmm addmm.decomposed addmv baddbmm bmm cdist corrcoef cov dot einsum inner kron
    linalg.matrix_power linalg.multi_dot linalg.vecdot matmul mm mv nn.functional.bilinear
    nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
    nn.functional.conv_transpose2d nn.functional.conv_transpose3d
    nn.functional.linear nn.functional.linear_cross_entropy nn.functional.multi_head_attention_forward
    nn.functional.scaled_dot_product_attention outer tensordot vdot
"""
SHARDS = 180  # of everything, so that one is less than 20 minutes of two cores
WHOLE = Shard(0, 1)
Cell = tuple[str, Way]


# ---- what there is to do ----


@functools.cache
def everything() -> tuple[Cell, ...]:
    """All cells. The tier `auto` runs both, the layout `offset` has `contiguous` before it: what one compiled
    function can tell is asked of one. Modules and optimisers are compiled anew for each tier.
    """
    modes, layouts, tiers = (False, True), LAYOUTS[1:], TIERS[1:]
    product = itertools.product
    ways = [Way(m, d, k, tier="auto") for d, k, m in product(DTYPES, layouts, modes)]
    ways += [Way(m, d, k, True, tier="auto") for d, k, m in product(DIFFERENTIABLE, layouts, modes)]
    ways += [Way(m, "float64", gradients=True, slopes=True) for m in modes]
    ways += [Way(m, errors=True) for m in modes]
    own = [
        Way(m, d, k, g, tier="auto", products="own")
        for g, names in ((False, DTYPES + MORE_DTYPES), (True, (*DIFFERENTIABLE, "float16", "complex128")))
        for d, k, m in product(names, layouts, modes)
    ]
    own += [Way(m, "float64", gradients=True, slopes=True, products="own") for m in modes]
    of_modules = [
        Way(m, d, k, tier=t) for d, k, m, t in product(("float32", "float64"), LAYOUTS, modes, tiers)
    ]
    of_optimisers = [Way(m, tier=t) for m, t in product(modes, tiers)]
    return tuple(operators(ways) + operators(own) + modules(of_modules) + optimisers(of_optimisers))


def operators(ways: Iterable[Way]) -> list[Cell]:
    """Whose products are dlc's own: those that have some."""
    cells = [(op.full_name, way) for way in ways for op in entries(way)]
    return [(name, way) for name, way in cells if way.products == "auto" or name in PRODUCTS.split()]


def modules(ways: Iterable[Way]) -> list[Cell]:
    both = [replace(way, gradients=True, training=t) for way in ways for t in (False, True)]
    return [(e.full_name, way) for way in both for e in module_entries() if e.possible(way)]


def optimisers(ways: Iterable[Way]) -> list[Cell]:
    return [(e.full_name, way) for way in ways for e in optimiser_entries()]


def jobs(
    cells: Iterable[Cell], backend: str, shard: Shard = WHOLE, window: int = 0, together: int = 1
) -> list[dict[str, Any]]:
    """window: how many samples of a cell, by the round; 0: all that are in the shard."""
    common = {"backend": backend, "shard": (shard.number, shard.count), "together": together}
    common["window"] = window
    return [{"name": name, "way": asdict(way)} | common for name, way in cells if shard.visits(name, way)]


def asked(args: argparse.Namespace) -> list[Cell]:
    """Everything, or the product of what the arguments list; gradients are those of floating numbers."""
    narrow = (args.dtypes, args.layouts, args.tier, args.modes, args.gradients, args.errors, args.slopes)
    products = args.products
    if args.shard and not any(narrow):
        return [cell for cell in everything() if products in ("auto", cell[1].products)]
    modes = args.modes or [False, True]
    if args.errors:
        return operators(Way(m, errors=True, products=products) for m in modes)
    if args.slopes:
        return operators(Way(m, "float64", gradients=True, slopes=True, products=products) for m in modes)
    dtypes = args.dtypes or ["float32"]
    some = itertools.product(dtypes, args.layouts or LAYOUTS[:1], modes, args.tier or ["tcc"])
    ways = [Way(m, d, k, args.gradients, tier=t, products=products) for d, k, m, t in some]
    return {"operators": operators, "modules": modules, "optimisers": optimisers}[args.database](ways)


# ---- what was done ----


def read(journal: Path) -> dict[Cell, Outcome]:
    """The outcomes in a journal; a last line that was cut off is dropped."""
    found = {}
    for line in journal.read_text().splitlines() if journal.exists() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        outcome = Outcome(**row | {"way": Way(**row["way"])})
        found[outcome.name, outcome.way] = outcome
    return found


def summary(outcomes: list[Outcome]) -> str:
    """What happened, for people."""
    failing = [o for o in outcomes if o.own]
    shared = sum(len(o.failures) - len(o.own) for o in outcomes)
    lines = [
        f"{o.way} {o.name}: {len(o.own)} of {o.samples} samples; sample {o.own[0][0]}: {o.own[0][1]}"
        for o in failing
    ]
    lines += [f"{o.way} {o.name}: {o.eager} graphs ran eagerly" for o in outcomes if o.eager]
    lines.append(
        f"{len(outcomes)} entries, {sum(o.samples for o in outcomes)} samples: {len(failing)} entries "
        f"with {sum(len(o.own) for o in outcomes)} failing samples; {shared} more fail with aot_eager "
        f"too; {sum(not o.graphs and o.samples > 0 for o in outcomes)} entries that Dynamo does not "
        "capture"
    )
    return "\n".join(lines)


def excused(outcomes: list[Outcome]) -> str:
    """The samples that fail with aot_eager too."""
    found = [(o, f) for o in outcomes for f in o.failures if f[2] is not None]
    return "\n".join(f"{o.way} {o.name}, sample {f[0]}, as with aot_eager: {f[2][:160]}" for o, f in found)


# ---- the program ----


def listed(known: Iterable[str], most: int) -> Callable[[str], list[str]]:
    """An argument that lists names; `all` are the last `most` of them."""
    names = list(known)

    def parse(text: str) -> list[str]:
        found = names[-most:] if text == "all" else text.split(",")
        if unknown := set(found) - set(names):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not one of {', '.join(names)}")
        return found

    return parse


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.ops.sweep", description=__doc__)
    parser.add_argument(
        "--shard", metavar="K/N", type=lambda text: Shard.parse(text, SHARDS),
        help="a part of everything, or of what the other options say; "
        f"commit: that of the commit, of {SHARDS}",
    )  # fmt: skip
    parser.add_argument("--backend", default="dlc")
    parser.add_argument(
        "--together", type=int, default=TOGETHER, metavar="N",
        help="samples of known sizes in one compiled function; where not all agree each runs alone "
        f"(default: {TOGETHER})",
    )  # fmt: skip
    parser.add_argument("--only", default="", metavar="TEXT", help="entries with TEXT in their name")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--database", choices=("operators", "modules", "optimisers"), default="operators")
    parser.add_argument(
        "--tier", type=listed(TIERS, 2), help="who compiles: tcc, gcc, auto for both in turn (default: tcc)"
    )  # fmt: skip
    parser.add_argument(
        "--dtypes", type=listed(MORE_DTYPES + DTYPES, len(DTYPES)),
        help=f"any of {','.join(DTYPES)}, or all of these, or of {','.join(MORE_DTYPES)} (default: float32)",
    )  # fmt: skip
    parser.add_argument(
        "--layouts", type=listed(LAYOUTS, 2),
        help=f"any of {','.join(LAYOUTS)}, or all; offset has contiguous before it, in one compiled function",
    )  # fmt: skip
    parser.add_argument(
        "--products",
        choices=("auto", "own"),
        default="auto",
        help="own: what multiplies matrices, by dlc alone",
    )
    parser.add_argument("--gradients", action="store_true", help="and those of the inputs")
    parser.add_argument("--errors", action="store_true", help="inputs that eager refuses, and nothing else")
    parser.add_argument(
        "--slopes", action="store_true", help="gradients in float64 against differences, by gradcheck"
    )
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--static", dest="modes", action="store_const", const=[False])
    modes.add_argument("--dynamic", dest="modes", action="store_const", const=[True])
    parser.add_argument(
        "--resume", type=Path, metavar="FILE",
        help="the journal; what it has is not done again (default: build/sweep-K-N.jsonl)",
    )  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="begin anew, without the journal")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    shard = args.shard or WHOLE
    journal = args.resume or ROOT / "build" / f"sweep-{shard.number}-{shard.count}.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    if args.fresh:
        journal.unlink(missing_ok=True)
    done = read(journal)
    cells = [c for c in asked(args) if args.only in c[0] and shard.visits(*c)]
    missing = jobs([c for c in cells if c not in done], args.backend, shard, together=args.together)
    print(f"shard {shard}: {len(cells)} pairs of an entry and a way; again: --shard={shard}", flush=True)
    pool = Pool(args.workers, journal.with_suffix(".log"))
    bar = tqdm(total=len(cells), initial=len(cells) - len(missing), disable=None)
    try:
        with open(journal, "a", buffering=1) as file, bar:
            for outcome in pool.run(missing):
                done[outcome.name, outcome.way] = outcome
                file.write(outcome.line() + "\n")
                bar.update()
                bar.set_description(outcome.name[:40])
    finally:
        pool.close()
    outcomes = [done[cell] for cell in cells]
    print(excused(outcomes), summary(outcomes), sep="\n")
    return any(o.own for o in outcomes)


if __name__ == "__main__":
    sys.exit(main())
