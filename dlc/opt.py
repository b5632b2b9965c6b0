"""python -m dlc opt: passes over IR text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from . import ir
from ._C import ir_passes


def _run(args: argparse.Namespace) -> int:
    if args.list:
        print("\n".join(f"{name:14} {sentence}" for name, sentence in ir_passes()))
        return 0
    file = "text" if args.file == "-" else args.file
    try:
        text = sys.stdin.read() if args.file == "-" else Path(file).read_text(encoding="utf-8")
        function = ir.parse(text, file)
        for name in args.passes.split(",") if args.passes else []:
            function = function.run_pass(name)
    except (OSError, ir.ParseError) as error:  # they name the file
        print(error, file=sys.stderr)
        return 1
    except (ValueError, ir.InternalError) as error:
        print(f"{file}: {error}", file=sys.stderr)
        return 1
    print(function.text, end="")
    return 0


def add_command(commands: Any) -> None:
    parser = commands.add_parser("opt", help="run passes over a file of IR text and print the result")
    parser.add_argument("--passes", default="", help="names, separated by commas, in order")
    parser.add_argument("--list", action="store_true", help="the passes, in their order")
    parser.add_argument("file", nargs="?", default="-", help="a file of IR text; without one standard input")
    parser.set_defaults(run=_run)
