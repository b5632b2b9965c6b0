"""Runs build/dlc-opt (or the program that DLC_OPT names) on a text."""

import os
import subprocess
from pathlib import Path

PROGRAM = Path(os.environ.get("DLC_OPT", Path(__file__).parents[1] / "build/dlc-opt"))


def opt(text: str, *options: str) -> str:
    command = [str(PROGRAM), *options, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr + text
    return done.stdout
