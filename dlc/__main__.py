"""python -m dlc opt|run|info|verify|convert|export|reduce|bisect|cache|explain|doctor, or --version"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from importlib import import_module
from typing import Any, NoReturn

from . import __version__

# dlc.report has the command explain, dlc.files.command info, verify, convert and export
MODULES = ("opt", "run", "files.command", "reduce", "bisect", "cache", "report", "doctor")


class _Parser(argparse.ArgumentParser):
    """Says of a word that is none of the choices, and of an unknown option, which one is nearest."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if found:
            message += _near(found[1], re.findall(r"[\w-]+", found[2]))
        super().error(message)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            commands = next(a.choices for a in self._actions if isinstance(a, argparse._SubParsersAction))
            command = commands[found.command]
            near = _near(rest[0], list(command._option_string_actions))
            command.error(f"there is no option or argument {' '.join(rest)}{near}")
        return found


def _near(word: str, words: list[str]) -> str:
    found = difflib.get_close_matches(word, words, 1)
    return f"; did you mean {found[0]}?" if found else ""


def main(argv: list[str] | None = None) -> int:
    parser = _Parser(prog="python -m dlc", description="Tools of the dlc compiler.")
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
