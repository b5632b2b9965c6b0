"""python -m dlc opt|run|reduce|bisect|cache|explain|doctor, or --version"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from . import __version__

# dlc.report has the command explain
MODULES = ("opt", "run", "reduce", "bisect", "cache", "report", "doctor")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlc", description="Tools of the dlc compiler.")
    parser.add_argument("--version", action="version", version=f"dlc {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    for name in MODULES:
        import_module(f"dlc.{name}").add_command(commands)
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        return args.run(args)
    except BrokenPipeError:  # what is printed is read no further, by head for instance
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
