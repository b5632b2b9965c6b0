"""python -m dlc opt: passes over IR text."""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from typing import Any

from . import ir
from ._C import ir_passes

MOST = 64 << 20  # bytes of a text


def read(file: str) -> str:
    """The text of a file, "-" for standard input.  Raises OSError, and ValueError for what is no text."""
    with nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as stream:
        data = stream.read(MOST + 1)
    if len(data) > MOST:
        raise ValueError(f"it has more than {MOST >> 20} MiB")
    return data.decode()


def reason(error: Exception) -> str:
    """Why a file is not read or written, without its name."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def say(file: str, error: Exception) -> int:
    """Prints why, after the file's name: a ParseError has it."""
    print(error if isinstance(error, ir.ParseError) else f"{file}: {reason(error)}", file=sys.stderr)
    return 1


def _run(args: argparse.Namespace) -> int:
    if args.list:
        print("\n".join(f"{name:14} {sentence}" for name, sentence in ir_passes()))
        return 0
    file = "standard input" if args.file == "-" else args.file
    try:
        function = ir.parse(read(args.file), file)
        for name in args.passes.split(",") if args.passes else []:
            function = function.run_pass(name)
    except Exception as error:  # whatever the text is: who runs this wants the reason, not where it was found
        return say(file, error)
    print(function.text, end="")
    return 0


def add_command(commands: Any) -> None:
    parser = commands.add_parser("opt", help="run passes over a file of IR text and print the result")
    parser.add_argument(
        "--passes", default="", help="names of passes in the order in which they run, with commas"
    )
    parser.add_argument("--list", action="store_true", help="print the passes, in the order of a compile")
    parser.add_argument("file", nargs="?", default="-", help="a file of IR text; default: standard input")
    parser.set_defaults(run=_run)
