"""python -m dlc opt: passes over IR text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from . import ir


def _run(args: argparse.Namespace) -> int:
    text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text()
    try:
        function = ir.parse(text)
        for name in args.passes.split(",") if args.passes else []:
            function = function.run_pass(name)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print(function.text, end="")
    return 0


def add_command(commands: Any) -> None:
    parser = commands.add_parser("opt", help="run passes over a file of IR text and print the result")
    parser.add_argument("--passes", default="", help="names, separated by commas, in order")
    parser.add_argument("file", help="a file of IR text, or - for standard input")
    parser.set_defaults(run=_run)
