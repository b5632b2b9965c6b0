"""What `build/test-emit` writes for a kernel, and the reader of that C which tests ask."""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "test-emit"


def run(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, HERE / f"{name}.dlc", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def printed(name: str, what: str, *more: str) -> str:
    """What is written for a kernel; nothing runs."""
    done = run(name, what, "cc=0", "run=0", *more)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


class Phase(NamedTuple):
    """A phase of a kernel as C: of which results it is, and its text."""

    of: str
    text: str

    def inside(self) -> str:
        """From its first loop on."""
        return self.text[self.text.index("for (") :]

    def prefetches(self) -> list[tuple[str, str]]:
        """Of the text for a C compiler: each tensor with its distance in bytes, "" where that is a row."""
        return re.findall(r"PREFETCH\((\w+)(?: \+ .*, (\d+))?", self.text)


def phases(name: str, tier: str) -> list[Phase]:
    texts = printed(name, f"print={tier}").split(" phase of ")[1:]
    return [Phase(text.split("\n")[0], text) for text in texts]


def strips(text: str, kind: str = "") -> list[str]:
    """The vector primitives that are called, in order, without "strip_"; `kind`: how their names begin."""
    return re.findall(rf"strip_({kind}\w*)(?=\([^v])", text)


def machine(name: str) -> int:
    """A threshold of machine.def."""
    table = (ROOT / "csrc/codegen/machine.def").read_text()
    number, shift = re.findall(rf"MACHINE\( {name}, +(\d+)(?: << (\d+))?,", table)[0]
    return int(number) << int(shift or 0)
