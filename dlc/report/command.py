"""python -m dlc explain script.py"""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

from .texts import TEXTS

#: The exit status of a script that ends well, of which dlc compiled nothing.
NOTHING = 3


def show(report: Any) -> None:
    """By rich where it is installed and a terminal reads."""
    try:
        from rich import print as rich_print
    except ImportError:
        rich_print = print
    (rich_print if sys.stdout.isatty() else print)(report)


def _run(args: argparse.Namespace) -> int:
    """Runs a script and reports every graph that it compiles with the backend."""
    from .gather import build, collect, measure, watch

    if not Path(args.script).is_file():
        print(f"{args.script}: there is no such file", file=sys.stderr)
        return 2
    for file in filter(None, (args.html, args.perfetto)):  # before the script runs, which may take hours
        if not Path(file).resolve().parent.is_dir():
            print(f"{file}: there is no folder {Path(file).resolve().parent}", file=sys.stderr)
            return 2
    sys.argv = [args.script, *args.arguments]
    sys.path.insert(0, str(Path(args.script).resolve().parent))  # as `python script.py` has it
    report = None
    with collect(keep=True) as reports:
        try:
            with watch() as seen:
                runpy.run_path(args.script, run_name="__main__")
        finally:  # also of a script that raises, or ends in sys.exit()
            measure(reports)
            report = build(reports, seen)
            show(report)
            for graph in report.graphs:
                if args.show and graph.texts[args.show]:
                    print(graph.texts[args.show])
            if args.html:
                report.save(args.html)
            if args.perfetto:
                report.to_perfetto(args.perfetto)
    return 0 if report.compiled else NOTHING


def add_command(commands: Any) -> None:
    parser = commands.add_parser(
        "explain",
        help="run a script and show what dlc made of it",
        epilog=f"The exit status is the script's, or {NOTHING} if it succeeds but dlc compiled nothing.",
    )
    parser.add_argument(
        "--show",
        choices=list(TEXTS),
        help="print the program of each graph at this stage",
    )
    parser.add_argument("--html", metavar="FILE", help="write the report as a page")
    parser.add_argument("--perfetto", metavar="FILE", help="write it as a timeline for ui.perfetto.dev")
    parser.add_argument("script", help="a Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_run)
