"""python -m dlc opt|bisect|cache|explain|doctor"""

from __future__ import annotations

import argparse
import sys

from . import bisect, cache, doctor, explain, opt


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlc", description="Tools of the dlc compiler.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for module in (opt, bisect, cache, explain, doctor):
        module.add_command(commands)
    args = parser.parse_args(argv)
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
