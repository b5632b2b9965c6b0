"""What an element of each op costs on 64-bit ARM, which is not at hand: predicted, not measured.

QEMU runs a strip once and says which instructions it executes. llvm-mca takes these, in their order, through
its model of a Cortex-A72: its pipelines, the latency of each instruction, and a cache that always hits.
"""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from benchmarks.ulp.strips import CSRC, FLAGS, folder

from .ops import COUNT, Op, dtypes, function, least

COMPILER, OBJDUMP, QEMU = "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump", "qemu-aarch64-static"
MODEL = (
    "llvm-mca",
    "-mtriple=aarch64",
    "-mcpu=cortex-a72",
    "-iterations=1",
    "-all-views=false",
    "-summary-view",
)
BLOCK = re.compile(r"^Trace \d+: \S+ \[\w+/(\w+)/")
CODE = re.compile(r"^0x(\w+):  ")
LINE = re.compile(r"^ +(\w+):\t(.*)$")
SYMBOL = re.compile(r"^(\w+) (\w+) . (\w+)$", re.MULTILINE)


@cache
def program() -> Path:
    """The strips for ARM, with a main function that runs one of them."""
    made = folder() / "run-neon"
    flags = [flag for flag in FLAGS if flag not in ("-fPIC", "-shared")]
    sources = [CSRC / "codegen/strips/strips_isa.c", Path(__file__).with_name("run.c")]
    subprocess.run(
        [COMPILER, *flags, "-static", f"-I{CSRC}", "-O3", "-DDLC_ISA=neon", *sources, "-o", made, "-lm"],
        check=True,
    )
    return made


@cache
def texts() -> dict[int, str]:
    """The instruction at each address, as llvm-mca reads it: without names and comments."""
    listing = subprocess.run(
        [OBJDUMP, "-d", "--no-show-raw-insn", str(program())], capture_output=True, text=True, check=True
    )
    found = (LINE.match(line) for line in listing.stdout.splitlines())
    return {int(m[1], 16): re.sub(r"\s*(<.*>|//.*)", "", m[2]) for m in found if m}


@cache
def main_function() -> range:
    names = subprocess.run(["nm", "-S", str(program())], capture_output=True, text=True, check=True).stdout
    (start, size) = next((m[1], m[2]) for m in SYMBOL.finditer(names) if m[3] == "main")
    return range(int(start, 16), int(start, 16) + int(size, 16))


def executed(op: Op) -> list[int]:
    """The addresses of the instructions that the strip of op executes, in their order."""
    log = folder() / "log"
    run = [program(), function(op), str(least(op)), *dtypes(op)]
    subprocess.run([QEMU, "-d", "in_asm,exec,nochain", "-D", log, *run], check=True)
    blocks: dict[int, list[int]] = {}
    block: list[int] = []
    trace: list[int] = []
    main, inside, called = main_function(), False, False
    for line in log.read_text().splitlines():
        if line.startswith("IN:"):
            block = []
        elif code := CODE.match(line):
            block.append(int(code[1], 16))
            blocks[block[0]] = block
        elif ran := BLOCK.match(line):
            pc = int(ran[1], 16)
            inside = pc not in main and (inside or called)
            trace += blocks[pc] if inside else []
            called = pc in main and texts()[blocks[pc][-1]].startswith("blr")
    return trace


def quarters(op: Op) -> int:
    text = "\n".join(texts()[pc] for pc in executed(op))
    said = subprocess.run(MODEL, input=text, capture_output=True, text=True, check=True).stdout
    cycles = re.search(r"Total Cycles: +(\d+)", said)
    assert cycles, said
    return max(1, round(4 * int(cycles[1]) / COUNT))
