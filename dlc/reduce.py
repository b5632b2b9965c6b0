"""python -m dlc reduce: the smallest program with the same failure. See docs/bugs.md.

csrc/ir/text/shrink.c proposes programs; each is verified and run in a process of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

from . import ir
from ._C import ir_shrink
from .repro import Repro
from .run import Failure, failures, load, repeat


def lets(text: str) -> int:
    return text.count("\n  let ")


class Progress:
    """A bar where tqdm is installed and a terminal reads, else a line a second or so."""

    def __init__(self, text: str) -> None:
        self.trials, self.begun, self.said = 0, lets(text), time.monotonic()
        self.bar = None
        try:
            from tqdm import tqdm
        except ImportError:
            return
        if sys.stderr.isatty():
            self.bar = tqdm(total=self.begun, unit="let", desc="reduce")

    def __call__(self, text: str, best: str) -> None:
        self.trials += 1
        if self.bar is not None:
            self.bar.n = self.begun - lets(best)
            self.bar.set_postfix(lets=lets(best), trials=self.trials)
        elif time.monotonic() - self.said > 2:
            self.said = time.monotonic()
            print(f"{self.trials} trials, {lets(best)} lets", file=sys.stderr)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def reduce(repro: Repro, like: Failure, progress: Any = None) -> Repro:
    """The smallest one found with a failure of this kind; it needs the failure."""
    best = repro
    seconds = 10.0 if like.kind == "hang" else 30.0

    def fails(candidate: Repro) -> bool:
        nonlocal best
        found = repeat(candidate, like, seconds)
        good = found is not None and found.key == like.key
        best = candidate if good else best
        if progress is not None:
            progress(candidate.text, best.text)
        return good

    best = dataclasses.replace(best, sizes=dict(best.arrays()[1]))
    while True:
        before = str(best)
        for name in best.known_sizes():
            size = best.sizes[name]
            for less in (2, 3, 4, size // 16, size // 4, size // 2):
                if less < size and fails(dataclasses.replace(best, sizes=best.sizes | {name: less})):
                    break
        ir_shrink(best.text, lambda text: fails(best.with_text(text)))
        if str(best) == before:
            return _tidy(best)


def _tidy(repro: Repro) -> Repro:
    """Without what says nothing about the program any more."""
    names = {param.name for param in ir.parse(repro.text).params}
    calls = repro.calls if " call " in repro.text else []
    return dataclasses.replace(
        repro,
        sizes=repro.known_sizes(),
        frozen=[name for name in repro.frozen if name in names],
        values={name: row for name, row in repro.values.items() if name in names},
        calls=calls,
        constants=repro.constants if calls else [],
    )


def _run(args: argparse.Namespace) -> int:
    repros = load(args.file)
    if not repros:
        return 3
    for repro in repros:
        found = failures(repro)
        if found:
            break
    else:
        print("All ways agree: there is nothing to reduce.")
        return 1
    failure = found[0]
    print(f"{failure.way}: {failure.kind}: {failure.detail}", file=sys.stderr)
    progress = Progress(repro.text)
    try:
        small = reduce(repro, failure, progress)
    finally:
        progress.close()
    print(f"{lets(repro.text)} lets to {lets(small.text)}, {progress.trials} trials", file=sys.stderr)
    if args.output:
        Path(args.output).write_text(str(small))
    else:
        print(small, end="")
    return 0


def add_command(commands: Any) -> None:
    parser = commands.add_parser("reduce", help="make a failing program or saved bug as small as it gets")
    parser.add_argument("file", help="a file of dlc.save_repro, or of IR text")
    parser.add_argument("-o", "--output", help="the file to write; default: standard output")
    parser.set_defaults(run=_run)
