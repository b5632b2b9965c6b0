"""What `build/test-emit` writes for a kernel, and the reader of that C which tests ask."""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.dlc_opt import opt
from tests.structure.kernels import without_short_rows

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "test-emit"

#: The rows of marks.def.
MARKS = re.findall(r"^MARK\( *(\w+)", (ROOT / "csrc/ir/marks.def").read_text(), re.MULTILINE)


def run(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, HERE / f"{name}.dlc", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def printed(name: str, what: str, *more: str) -> str:
    """What is written for a kernel; nothing runs."""
    done = run(name, what, "cc=0", "run=0", *more)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def marks(name: str, target: str, *wanted: str) -> list[tuple[str, list[str]]]:
    """Of each phase in the loops of a target: the results that it stores, and its marks, each with the
    tensor or the loop that it stands on; `wanted`: only those that begin so.
    """
    found: list[tuple[list[str], list[str]]] = []
    text = opt((HERE / f"{name}.dlc").read_text(), "--pass", f"lower,schedule,{target}")
    for line in without_short_rows(text).splitlines():
        if re.match(r" {4}for ", line):
            found.append(([], []))
        stored = re.search(r"store (\w+)\[", line)
        if found and stored and not stored[1].startswith("buf"):
            found[-1][0].append(stored[1])
        what = re.search(r"(?:load|store|update) (\w+)|(for|reduce)\b.* in", line)
        for mark in (
            re.findall(r" ([a-z_]+(?:=\d+)?)(?= |$)", line.split(" in ")[-1]) if what and found else []
        ):
            if mark.startswith(wanted or ("",)) and mark.split("=")[0] in MARKS:
                found[-1][1].append(f"{what[1] or what[2]} {mark}")
    return [(", ".join(dict.fromkeys(results)), of) for results, of in found]


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
    """Without those for short rows alone."""
    texts = printed(name, f"print={tier}").split(" phase of ")[1:]
    branch, short = "", []
    for line in printed(name, "print=loops").splitlines():
        found = re.match(r" {4}(if |\} else|\})", line)
        branch = found[1] if found else branch
        if re.match(r" {4}for " if branch in ("", "}") else r" {6}for ", line):
            short.append(branch == "if ")
    assert len(short) == len(texts)
    return [Phase(text.split("\n")[0], text) for text, of in zip(texts, short, strict=True) if not of]


def whole(name: str, tier: str) -> str:
    """The text of these phases."""
    return "".join(phase.text for phase in phases(name, tier))


def strips(text: str, kind: str = "") -> list[str]:
    """The vector primitives that are called, in order, without "strip_"; `kind`: how their names begin."""
    return re.findall(rf"strip_({kind}\w*)(?=\([^v])", text)


def machine(name: str) -> int:
    """A threshold of machine.def."""
    table = (ROOT / "csrc/codegen/machine.def").read_text()
    number, shift = re.findall(rf"MACHINE\( {name}, +(\d+)(?: << (\d+))?,", table)[0]
    return int(number) << int(shift or 0)
