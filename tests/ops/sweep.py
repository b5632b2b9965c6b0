"""Torch's operators, every sample, eager against compiled: python -m tests.ops.sweep

The journal keeps what was done; started again with it, the sweep goes on where it was. What fails with
the backend aot_eager too is not this compiler's doing; the whole sweep lists it in not_counted.md.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tests.ops.check import DTYPES, LAYOUTS, Way, entries
from tests.ops.pool import ROOT, Outcome, Pool

TOGETHER = 8
NOT_COUNTED = Path(__file__).parent / "not_counted.md"


def jobs(
    names: Iterable[str], ways: Iterable[Way], backend: str, fraction: float, seed: int, together: int = 1
) -> list[dict[str, Any]]:
    common = {"backend": backend, "fraction": fraction, "seed": seed, "together": together}
    return [{"name": name, "way": asdict(way)} | common for way in ways for name in names]


def names(way: Way) -> list[str]:
    return [op.full_name for op in entries(way)]


def every_way(args: argparse.Namespace) -> list[Way]:
    """The product of what the arguments list; gradients are those of floating numbers."""
    modes = args.modes or [False, True]
    if args.errors:
        return [Way(m, errors=True) for m in modes]
    if args.slopes:
        return [Way(m, "float64", gradients=True, slopes=True) for m in modes]
    dtypes, layouts = args.dtypes.split(","), args.layouts.split(",")
    return [Way(m, d, k, args.gradients) for d in dtypes for k in layouts for m in modes]


def read(journal: Path) -> dict[tuple[str, Way], Outcome]:
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


def not_counted(outcomes: list[Outcome]) -> str:
    """The samples that fail with aot_eager too, and the entries of which Dynamo captures nothing."""
    lines = [
        "# Operator samples that do not count",
        "",
        'Written by `python -m tests.ops.sweep`. These fail with `backend="aot_eager"` as well, which',
        "runs the captured operators as they are.",
        "",
        "| entry | sizes | samples | reason with aot_eager |",
        "|---|---|---|---|",
    ]
    for o in sorted(outcomes, key=lambda o: (o.name, o.way.dynamic)):
        shared = [f for f in o.failures if f[2] is not None]
        if shared:
            reason = shared[0][2].replace("|", "\\|")[:160]
            lines.append(f"| {o.name} | {o.way} | {len(shared)} of {o.samples} | {reason} |")
    dark = sorted({o.name for o in outcomes if o.samples and not o.graphs})
    lines += ["", "Dynamo captures nothing of these, so no backend sees them:", ""]
    return "\n".join([*lines, ", ".join(f"`{name}`" for name in dark) or "none", ""])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.ops.sweep", description=__doc__)
    parser.add_argument("--backend", default="dlc")
    parser.add_argument("--tier", choices=("tcc", "gcc"), default="tcc", help="who compiles (default: tcc)")
    parser.add_argument("--fraction", type=float, default=1.0, help="of the samples of each entry")
    parser.add_argument("--seed", type=int, default=0, help="chooses the samples of a fraction")
    parser.add_argument(
        "--together", type=int, default=TOGETHER, metavar="N",
        help="samples of known sizes in one compiled function; where not all agree each runs alone "
        f"(default: {TOGETHER})",
    )  # fmt: skip
    parser.add_argument("--only", default="", metavar="TEXT", help="entries with TEXT in their name")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--dtypes", default="float32", help=f"any of {','.join(DTYPES)}, or all")
    parser.add_argument(
        "--layouts", default="contiguous",
        help=f"any of {','.join(LAYOUTS)}, or all; offset has contiguous before it, in one compiled function",
    )  # fmt: skip
    parser.add_argument("--gradients", action="store_true", help="and those of the inputs")
    parser.add_argument("--errors", action="store_true", help="inputs that eager refuses, and nothing else")
    parser.add_argument(
        "--slopes", action="store_true", help="gradients in float64 against differences, by gradcheck"
    )
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--static", dest="modes", action="store_const", const=[False])
    modes.add_argument("--dynamic", dest="modes", action="store_const", const=[True])
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", default=ROOT / "build" / "sweep.jsonl",
        help="the journal; what it has is not done again (default: build/sweep.jsonl)",
    )  # fmt: skip
    parser.add_argument("--fresh", action="store_true", help="begin anew, without the journal")
    args = parser.parse_args()
    args.dtypes = ",".join(DTYPES) if args.dtypes == "all" else args.dtypes
    args.layouts = ",".join(LAYOUTS[1:]) if args.layouts == "all" else args.layouts
    return args


def main() -> int:
    args = arguments()
    args.resume.parent.mkdir(parents=True, exist_ok=True)
    if args.fresh:
        args.resume.unlink(missing_ok=True)
    done = read(args.resume)
    wanted = [
        job
        for way in every_way(args)
        for job in jobs(names(way), [way], args.backend, args.fraction, args.seed, args.together)
        if args.only in job["name"]
    ]
    missing = [j for j in wanted if (j["name"], Way(**j["way"])) not in done]
    pool = Pool(args.workers, args.resume.with_suffix(".log"), args.tier)
    bar = tqdm(total=len(wanted), initial=len(wanted) - len(missing), disable=None)
    try:
        with open(args.resume, "a", buffering=1) as journal, bar:
            for outcome in pool.run(missing):
                done[outcome.name, outcome.way] = outcome
                journal.write(outcome.line() + "\n")
                bar.update()
                bar.set_description(outcome.name[:40])
    finally:
        pool.close()
    outcomes = [done[j["name"], Way(**j["way"])] for j in wanted]
    print(summary(outcomes))
    if args.fraction >= 1 and not args.only and every_way(args) == [Way(False), Way(True)]:
        NOT_COUNTED.write_text(not_counted(outcomes))
    return any(o.own for o in outcomes)


if __name__ == "__main__":
    sys.exit(main())
