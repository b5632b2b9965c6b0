"""The kernels here as loops, whose lines tests ask, and as units of C, which compilers take (`unit.py`)."""

import os
import re
import subprocess
from pathlib import Path

from tests.dlc_opt import opt
from tests.structure.kernels import without_short_rows

from .unit import Function, Unit

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = Path(os.environ.get("DLC_BIN", ROOT / "build")) / "test-emit"

#: The rows of marks.def.
MARKS = re.findall(r"^MARK\( *(\w+)", (ROOT / "csrc/ir/marks.def").read_text(), re.MULTILINE)


def run(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, HERE / f"{name}.dlc", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def check(name: str, *args: str) -> None:
    """All targets against the interpreter and one another, see run_emit.c."""
    done = run(name, *args)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def loops(name: str, *more: str) -> str:
    """The loops that all targets share; nothing runs."""
    done = run(name, "print=loops", "cc=0", "run=0", *more)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def marks(name: str, target: str, *wanted: str) -> list[tuple[str, list[str]]]:
    """Of each phase in the loops of a target: the results that it stores, and its marks, each with the
    tensor or the loop that it stands on; `wanted`: only those that begin so.
    """
    found: list[tuple[list[str], list[str]]] = []
    text = opt((HERE / f"{name}.dlc").read_text(), "--pass", f"lower,schedule,{target}")
    for line in without_short_rows(text).splitlines():
        if re.match(r" {4}(?:for |if .* phase \{)", line):
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


def unit(name: str, target: str, folder: Path, head: str = "") -> Unit:
    """The kernel as C, for compilers; head: C in front of it."""
    return Unit((HERE / f"{name}.dlc").read_text(), target, folder, head)


def functions(name: str, target: str, folder: Path, head: str = "") -> list[tuple[str, Function]]:
    """The phases in machine code but for those of short rows alone, each with the results that it stores."""
    branch, short = "", []
    for line in loops(name).splitlines():
        found = re.match(r" {4}(if |\} else|\})", line)
        branch = found[1] if found else branch
        if re.match(r" {4}for " if branch in ("", "}") else r" {6}for ", line):
            short.append(branch == "if ")
    made = unit(name, target, folder, head).functions()
    long = [function for function, of in zip(made, short, strict=True) if not of]
    return [(of, function) for (of, _), function in zip(marks(name, target), long, strict=True)]


def machine(name: str) -> int:
    """A threshold of machine.def."""
    table = (ROOT / "csrc/codegen/machine.def").read_text()
    number, shift = re.findall(rf"MACHINE\( {name}, +(\d+)(?: << (\d+))?,", table)[0]
    return int(number) << int(shift or 0)
