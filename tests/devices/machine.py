"""Processors that are not this one: a compiler for them (ziglang) and an emulator (unicorn), both from PyPI.

Programs run without an operating system: bare/ has what begins them and the little of the C library that the
check of an exported program calls. The emulator loads the file, calls `bare_start` and stops at `bare_end`.
"""

from __future__ import annotations

import importlib.util
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

BARE = Path(__file__).parent / "bare"
STACK, STACK_TOP = 1 << 20, 1024  # bytes; above its beginning
PAINT = b"\xa5"
PAGE = 1 << 12
MISSING = [name for name in ("ziglang", "unicorn") if importlib.util.find_spec(name) is None]
needs_machines = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}: pip install")


@dataclass(frozen=True)
class Processor:
    """How a compiler and the emulator call one."""

    target: str
    arch: str
    mode: tuple[str, ...]
    stack: str  # the register that points to it
    flags: tuple[str, ...] = ()
    registers: dict[str, int] = field(default_factory=dict)  # what a start-up code sets: floating point is on
    model: str = ""


PROCESSORS = {
    "aarch64": Processor("aarch64-freestanding", "ARM64", ("ARM",), "ARM64_REG_SP"),
    "s390x": Processor(
        "s390x-freestanding",
        "S390X",
        ("BIG_ENDIAN",),
        "S390X_REG_R15",
        ("-mcpu=z10",),
        {"PSWM": 0x180000000, "CR0": 0x60000},
    ),
    "x86": Processor("x86-freestanding", "X86", ("32",), "X86_REG_ESP"),
    "cortex-m4": Processor(
        "thumb-freestanding-eabihf",
        "ARM",
        ("THUMB", "MCLASS"),
        "ARM_REG_SP",
        ("-mcpu=cortex_m4+vfp4d16sp",),
        model="CPU_ARM_CORTEX_M4",
    ),
}
# Those of the program's own page, and those of a machine without an operating system.
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wvla", "-Werror"]
FLAGS += ["-ffp-contract=off", "-fwrapv", "-fno-math-errno"]
ALONE = ["-ffreestanding", "-fno-builtin", "-fno-sanitize=undefined", "-Wl,-e,bare_start", "-I", str(BARE)]


def compile_for(
    processor: str, folder: Path, *sources: str, out: str = "bare", flags: tuple[str, ...] = ()
) -> Path:
    """A program of these files of the folder and bare.c; fails with what the compiler says."""
    p = PROCESSORS[processor]
    command = [sys.executable, "-m", "ziglang", "cc", "-target", p.target, *FLAGS, *ALONE, *p.flags, *flags]
    command += ["-o", out, *sources, str(BARE / "bare.c")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=540)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[:2000]
    return folder / out


@dataclass
class Image:
    """An ELF file: what is loaded where, and the addresses of its symbols."""

    segments: list[tuple[int, bytes, int]]  # address, bytes of the file, bytes in memory
    symbols: dict[str, int]
    sections: dict[str, tuple[int, int]]  # address, bytes


def read_elf(path: Path) -> Image:
    data = path.read_bytes()
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"

    def at(form: str, offset: int) -> tuple[Any, ...]:
        return struct.unpack_from(order + form, data, offset)

    phoff, shoff = at("QQ", 32) if wide else at("II", 28)
    phsize, phnum, shsize, shnum, shnames = at("HHHHH", 54 if wide else 42)
    segments = []
    for k in range(phnum):
        if wide:
            kind, _, offset, _, address, stored, room, _ = at("IIQQQQQQ", phoff + k * phsize)
        else:
            kind, offset, _, address, stored, room, _, _ = at("IIIIIIII", phoff + k * phsize)
        if kind == 1 and room:
            segments.append((address, data[offset : offset + stored], room))
    heads = [at("IIQQQQIIQQ" if wide else "IIIIIIIIII", shoff + k * shsize) for k in range(shnum)]

    def text(table: int, offset: int) -> str:
        begin = heads[table][4] + offset
        return data[begin : data.index(b"\0", begin)].decode()

    symbols, sections = {}, {}
    for name, kind, _, address, offset, bytes_, link, *_ in heads:
        sections[text(shnames, name)] = (address, bytes_)
        size = 24 if wide else 16
        for k in range(bytes_ // size if kind == 2 else 0):
            if wide:
                label, _, _, _, value, _ = at("IBBHQQ", offset + k * size)
            else:
                label, value, _, _, _, _ = at("IIIBBH", offset + k * size)
            symbols[text(link, label)] = value
    return Image(segments, symbols, sections)


@dataclass
class Ran:
    """What a program left behind."""

    code: int
    said: str
    instructions: int  # of a Cortex-M, if they are counted
    stack: int  # bytes
    memory: dict[str, bytes]


def thumb_instructions(code: bytes) -> int:
    """One has four bytes if its first five bits are 11101, 11110 or 11111, else two."""
    at = n = 0
    while at < len(code):
        at += 4 if code[at + 1] >> 3 in (0b11101, 0b11110, 0b11111) else 2
        n += 1
    return n


def run(processor: str, program: Path, *, count: bool = False, read: dict[str, int] | None = None) -> Ran:
    """Runs it from bare_start to bare_end; `read`: bytes by variable, `count`: of instructions."""
    import unicorn

    p, image = PROCESSORS[processor], read_elf(program)
    mode = sum(getattr(unicorn, f"UC_MODE_{name}") for name in p.mode)
    machine = unicorn.Uc(getattr(unicorn, f"UC_ARCH_{p.arch}"), mode)
    constants = getattr(
        unicorn, {"ARM64": "arm64_const", "ARM": "arm_const", "X86": "x86_const"}.get(p.arch, "s390x_const")
    )
    if p.model:
        machine.ctl_set_cpu_model(getattr(constants, f"UC_{p.model}"))
    mapped: list[tuple[int, int]] = []

    def map_pages(begin: int, end: int) -> None:
        """Those of begin .. end-1 that are not there yet; segments come by their addresses."""
        first = max([begin // PAGE * PAGE, *(last for _, last in mapped)])
        last = (end + PAGE - 1) // PAGE * PAGE
        if last > first:
            machine.mem_map(first, last - first)
            mapped.append((first, last))

    top = 0
    for address, stored, room in sorted(image.segments):
        map_pages(address, address + room)
        machine.mem_write(address, stored)
        top = max(top, address + room)
    stack = (top + PAGE) // PAGE * PAGE
    map_pages(stack, stack + STACK)
    machine.reg_write(getattr(constants, f"UC_{p.stack}"), stack + STACK - STACK_TOP)
    for name, value in p.registers.items():
        machine.reg_write(getattr(constants, f"UC_{p.arch}_REG_{name}"), value)
    machine.mem_write(stack, PAINT * STACK)
    counted, lengths = 0, dict[tuple[int, int], int]()

    def block(_: object, address: int, bytes_: int, __: object) -> None:
        nonlocal counted
        key = address, bytes_
        if key not in lengths:
            lengths[key] = thumb_instructions(bytes(machine.mem_read(address, bytes_)))
        counted += lengths[key]

    if count and "THUMB" in p.mode:
        machine.hook_add(unicorn.UC_HOOK_BLOCK, block)
    machine.emu_start(image.symbols["bare_start"] | ("THUMB" in p.mode), image.symbols["bare_end"] & ~1)
    painted = bytes(machine.mem_read(stack, STACK))
    used = STACK - STACK_TOP - (len(painted) - len(painted.lstrip(PAINT)))
    wanted = {"bare_code": 4, "bare_said": 512, **(read or {})}
    memory = {
        name: bytes(machine.mem_read(image.symbols[name], bytes_))
        for name, bytes_ in wanted.items()
        if name in image.symbols
    }
    code = int.from_bytes(memory["bare_code"], "big" if "BIG_ENDIAN" in p.mode else "little", signed=True)
    return Ran(code, memory.get("bare_said", b"").split(b"\0")[0].decode(), counted, used, memory)
