"""python -m dlc bisect: the first rewrite of the passes that makes a program wrong.

Every single rewrite spends one unit of fuel, and DLC_FUEL limits how much a graph may spend. A program
that is right without any and wrong with all of it has a smallest amount that makes it wrong.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import ir
from .opt import read, say

Trial = Callable[[int | None], bool]  # is the program right with so much fuel (None: no limit)?
Show = Callable[[int], list[str]]  # what the passes make with so much fuel
FAR = 1e-3  # results that differ by more, relative to the largest element, are wrong
MOST = 2**24  # more rewrites than any program has
SHOWN = 20  # lines of what a script says


def environment(fuel: int | None, **more: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k != "DLC_FUEL"}
    return env | ({} if fuel is None else {"DLC_FUEL": str(fuel)}) | {"DLC_CACHE": "0"} | more


class Unrepeatable(Exception):
    """A program that is wrong at one time and right at another, with the same rewrites."""


def first_bad(good: Trial) -> int | None:
    """The smallest amount of fuel that is too much, by doubling and halving; None: none is.

    Raises Unrepeatable when it is right with any amount, and wrong without a limit.
    """
    if good(None):
        return None
    if not good(0):
        return 0
    low, high = 0, 1
    while good(high):
        if high == MOST:
            raise Unrepeatable
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if good(middle) else (low, middle)
    return high


# -- a script: its exit status says whether it is right ---------------------------------------------


def run_script(command: list[str], fuel: int | None, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment(fuel, **more), capture_output=True, text=True, errors="replace"
    )


def dumped(command: list[str], fuel: int) -> list[str]:
    """What the passes print of themselves, and nothing else that the script prints."""
    lines, inside = [], False
    for line in run_script(command, fuel, DLC_DUMP="all").stderr.splitlines():
        inside = inside or line.startswith("-- ")
        if inside:
            lines.append(line)
        inside = inside and line != "}" and "(unchanged)" not in line
    return lines


# -- a text: the interpreter says what is right -----------------------------------------------------


def choose_size(text: str, name: str) -> int:
    """A small value that the declaration of the size allows."""
    found = re.search(rf"\b{name} in (\d+)\.\.(\w+)(?: % (\d+))?", text)
    low, high, divisor = found.groups() if found else ("0", "inf", None)
    step = int(divisor or 1)
    value = -(-max(int(low), 3) // step) * step
    return value if high == "inf" else min(value, int(high))


def random_array(kind: str, sizes: dict[str, int], random: np.random.Generator) -> np.ndarray:
    dtype, _, dims = kind.partition("[")
    names = {"max": max, "min": min, **sizes}
    shape = eval(f"({dims.partition(']')[0]},)", {}, names) if dims.strip(" ]") else ()
    if dtype in ("f16", "f32", "f64"):
        return random.standard_normal(shape).astype(f"float{dtype[1:]}")
    if dtype == "bf16":
        bits = random.standard_normal(shape).astype(np.float32).view(np.uint32)
        return (bits >> 16).astype(np.uint16)
    if dtype in ("c64", "c128"):
        return random.standard_normal(shape).astype(f"complex{dtype[1:]}")
    whole = {"bool": "bool", "u8": "uint8"}.get(dtype) or f"int{dtype[1:]}"
    return random.integers(0, 2, shape).astype(whole)


def results(function: ir.Function, text: str) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    sizes = {name: choose_size(text, name) for name in function.sizes}
    arrays = [random_array(param.type, sizes, random) for param in function.params]
    made = function(*arrays, **sizes)
    return list(made) if isinstance(made, tuple) else [made]


def rewritten(text: str, fuel: int | None) -> ir.Function:
    os.environ.pop("DLC_FUEL", None)
    if fuel is not None:
        os.environ["DLC_FUEL"] = str(fuel)
    try:
        return ir.parse(text).run_pass("pipeline")
    finally:
        os.environ.pop("DLC_FUEL", None)


def near(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype == np.uint16:  # the bits of bfloat16
        a, b = (x.astype(np.uint32) << 16 for x in (a, b))
        a, b = a.view(np.float32), b.view(np.float32)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    finite = np.abs(a[np.isfinite(a)])
    return np.allclose(a, b, rtol=FAR, atol=FAR * float(finite.max(initial=0)), equal_nan=True)


# -- the command ------------------------------------------------------------------------------------


def reporting(good: Trial) -> Trial:
    def trial(fuel: int | None) -> bool:
        right = good(fuel)
        amount = "no limit" if fuel is None else f"fuel {fuel}"
        print(f"{amount}: {'right' if right else 'wrong'}", file=sys.stderr)
        return right

    return trial


def of_script(command: list[str]) -> tuple[Trial, Show]:
    def good(fuel: int | None) -> bool:
        done = run_script(command, fuel)
        if fuel == 0 and done.returncode != 0:  # it may fail for a reason of its own
            print(f"Without any rewrite it ends with status {done.returncode}:", file=sys.stderr)
            print(*(f"    {line}" for line in done.stderr.splitlines()[-SHOWN:]), sep="\n", file=sys.stderr)
        return done.returncode == 0

    return good, lambda fuel: dumped(command, fuel)


def of_text(text: str, file: str) -> tuple[Trial, Show]:
    want = results(ir.parse(text, file), text)

    def good(fuel: int | None) -> bool:
        try:
            have = results(rewritten(text, fuel), text)
        except ir.InternalError as error:
            print(error, file=sys.stderr)
            return False
        return all(map(near, want, have))

    return good, lambda fuel: rewritten(text, fuel).text.splitlines()


def run(args: argparse.Namespace) -> int:
    if not Path(args.file).is_file():
        print(f"{args.file}: there is no such file", file=sys.stderr)
        return 2
    if args.file.endswith(".py"):
        good, show = of_script([sys.executable, args.file, *args.arguments])
    else:
        try:
            good, show = of_text(read(args.file).partition("\n---\n")[0], args.file)
        except Exception as error:  # no text, no program, or one against the rules
            say(args.file, error)
            return 2
    try:
        return report(first_bad(reporting(good)), show)
    except Unrepeatable:
        print(
            f"It was wrong once, and is right with up to {MOST:,} rewrites: the failure cannot be repeated."
        )
        return 1


def pass_of(before: list[str], after: list[str]) -> str | None:
    """The pass under whose heading two dumps begin to differ."""
    name = None
    for one, other in itertools.zip_longest(before, after, fillvalue=""):
        heading = next((line for line in (one, other) if line.startswith("-- ")), None)
        name = heading.split()[1] if heading else name
        if one != other:
            return name
    return None


def programs_in(dump: list[str]) -> list[list[str]]:
    """What stands under each heading, of which a dump may have none."""
    starts = [k for k, line in enumerate(dump) if line.startswith("-- ")]
    return [dump[k:end] for k, end in itertools.pairwise([0, *starts, len(dump)])]


def differing(one: list[str], other: list[str]) -> list[int]:
    """The numbers of the lines of the first that differ, without the heading."""
    return [k for k in range(1, len(one)) if k >= len(other) or one[k] != other[k]]


def kernel_of(before: list[str], after: list[str]) -> str | None:
    """The results of the kernel that the last rewrite changed. Under the first heading where two dumps differ
    it is changed; as it was it stands in the text that is most like that one.
    """
    programs, others = programs_in(after), programs_in(before)
    pairs = enumerate(zip(programs, others, strict=False))
    last = next((k for k, (one, other) in pairs if one != other), None)
    if last is None:
        return None
    changed = programs[last]
    texts = [*programs[:last], others[last]]
    alike = [found for one in texts if len(one) == len(changed) and (found := differing(changed, one))]
    longer = [found[:1] for one in texts if (found := differing(changed, one))]  # lines were put in
    lines = min(alike, key=len) if alike else max(longer, default=[])
    for line in reversed(changed[: lines[0] + 1] if lines else []):
        head = re.match(r"\s*let (.*) = kernel \{$", line)
        if head:
            return ", ".join(re.findall(r"(\w+): ", head[1]))
    return None


def report(fuel: int | None, show: Show) -> int:
    if fuel is None:
        print("The program is right with all rewrites: there is nothing to find.")
        return 0
    if fuel == 0:
        print("The program is wrong without any rewrite: the passes are not the cause.")
        return 1
    print(f"Rewrite {fuel} makes it wrong (DLC_FUEL={fuel - 1} is right, DLC_FUEL={fuel} is not):\n")
    try:
        before, after = show(fuel - 1), show(fuel)
    except ir.InternalError as error:
        print(error)
        return 1
    name = pass_of(before, after)
    if name is not None:
        print(f"It is in the pass {name}.\n")
    kernel = kernel_of(before, after)
    if kernel is not None:
        print(f"The kernel is that of {kernel}.\n")
    names = f"DLC_FUEL={fuel - 1}", f"DLC_FUEL={fuel}"
    print("\n".join(difflib.unified_diff(before, after, *names, lineterm="")))
    return 1


def add_command(commands: Any) -> None:
    parser = commands.add_parser("bisect", help="find the first rewrite that makes a program wrong")
    parser.add_argument(
        "file", help="a Python script that exits with status 0 if its result is right, or a file of IR text"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's arguments")
    parser.set_defaults(run=run)
