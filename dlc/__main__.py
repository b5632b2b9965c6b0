"""python -m dlc opt|bisect|cache|explain|doctor"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

COMMANDS = ("opt", "bisect", "cache", "explain", "doctor")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlc", description="Tools of the dlc compiler.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name in COMMANDS:  # by name: dlc.explain is also a function
        import_module(f"dlc.{name}").add_command(commands)
    args = parser.parse_args(argv)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
