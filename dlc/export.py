"""python -m dlc export: a program as plain C."""

from __future__ import annotations

import argparse
from typing import Any

from . import ir
from .opt import read, say


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not name or not value.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NUMBER")
    return name, int(value)


def _run(args: argparse.Namespace) -> int:
    file = "standard input" if args.file == "-" else args.file
    try:
        function = ir.parse(read(args.file), file)
        paths = function.export_c(args.folder, args.name, sizes=dict(args.size), threads=args.threads)
    except Exception as error:  # whatever the text is: who runs this wants the reason, not where it was found
        return say(file, error)
    print("\n".join(map(str, paths)))
    return 0


def add_command(commands: Any) -> None:
    parser = commands.add_parser("export", help="write a program of IR text as plain C")
    parser.add_argument("file", help="a program of the graph stage; - is standard input")
    parser.add_argument("folder", help="where the files go; it is made if it is not there")
    parser.add_argument("--name", default="m", help="of the files, and the beginning of what they declare")
    parser.add_argument("--size", action="append", default=[], type=_size, metavar="NAME=NUMBER",
                        help="a size of the example that the check runs")  # fmt: skip
    parser.add_argument(
        "--threads", type=int, default=16, help="into so many pieces a kernel is cut, at most"
    )
    parser.set_defaults(run=_run)
