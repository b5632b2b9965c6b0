"""What is in the loops of an object's functions, out of its disassembly."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

FUNCTION = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\t(\S+)\s*(.*)$")
TARGET = re.compile(r"^([0-9a-f]+)\b")

Instruction = tuple[int, str, str]


def functions(path: Path) -> dict[str, list[Instruction]]:
    """Address, word and operands of each instruction of each function."""
    command = ["objdump", "-d", "--no-show-raw-insn", "-M", "intel", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, list[Instruction]] = {}
    for line in text.splitlines():
        if named := FUNCTION.match(line):
            current = found.setdefault(named[1], [])
        elif part := LINE.match(line):
            current.append((int(part[1], 16), part[2], part[3]))
    return found


def inner_loops(code: list[Instruction]) -> list[list[Instruction]]:
    """The bodies of the backward jumps that have none inside."""
    spans = []
    for address, word, operands in code:
        target = TARGET.match(operands) if word.startswith("j") else None
        if target and code[0][0] <= int(target[1], 16) <= address:
            spans.append((int(target[1], 16), address))
    inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    return [[i for i in code if low <= i[0] <= high] for low, high in inner]


def of_the_stack(code: list[Instruction], body: list[Instruction]) -> list[Instruction]:
    """Those of the body that read or write the function's frame.  rbp is its base where it was made so.

    A load from the frame does not make it one: rbp then holds any pointer.
    """
    framed = any(w in ("mov", "lea") and re.match(r"rbp,\[?r(sp|10)", o) for _, w, o in code)
    base = re.compile(r"\[(rsp|rbp)\b" if framed else r"\[rsp\b")
    return [i for i in body if base.search(i[2])]
