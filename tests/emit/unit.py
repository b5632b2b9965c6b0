"""The C that a target writes for a program, as a unit that compilers take.

No test reads this text: what a rewrite decides is a line of the loops (`written.py`). What is asked of C is
what compilers say of it and what they make of it: whether they accept it, which routines its functions call,
how many loops they have, which of them become vectors.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.dlc_opt import opt

CSRC = Path(__file__).parents[2] / "csrc"
HEADERS = [
    "ir/math/prelude.h",
    *(f"codegen/emit/prelude_{part}.h" for part in ("reduce", "transpose", "scan")),
]
#: The stage that a program begins with to what makes the loops of it.
PASSES = {
    "graph": ["--pipeline", "--pass", "lower,schedule,{}"],
    "kernels": ["--pass", "lower,schedule,{}"],
    "loops": ["--pass", "{}"],
}
FLAGS = [
    *("-std=gnu11", "-ffp-contract=off", "-fwrapv", "-fno-math-errno", "-fno-trapping-math"),
    "-fopenmp-simd",
]
# As the extension compiles it; but a loop that copies or fills becomes a vector, and not a call of memcpy.
FAST = ["-O3", "-march=native", "-fPIC", "-w", "--param=unroll-jam-max-unroll=1", "-fno-thread-jumps"]
FAST += ["-fno-tree-loop-distribute-patterns"]
# With it each line that tells compilers to make a vector of the loop behind it is a comment in the assembly.
TOLD = """
#ifdef NOTE_TOLD
#define _Pragma(text) __asm__ volatile("# told %c0" :: "i"(__LINE__));
#endif
"""
HAS_GCC = shutil.which("gcc") is not None


class Function(NamedTuple):
    """A function of the unit, and the routines that it calls, in the order of their calls."""

    name: str
    calls: list[str]

    def strips(self, kind: str = "") -> list[str]:
        """The vector primitives, without "strip_"; `kind`: how their names begin."""
        return [call.removeprefix("strip_") for call in self.calls if re.match(f"strip_(?:{kind})", call)]


class Unit:
    """The unit of a program's text in any stage, in a file of the folder. head: C in front of it."""

    def __init__(self, program: str, target: str, folder: Path, head: str = "") -> None:
        stage = next(line.split()[2] for line in program.splitlines() if line.startswith("dlc "))
        passes = [option.format(target) for option in PASSES[stage]]
        text = opt(program, *passes, "--emit", target)
        heads = "".join(f'#include "{CSRC / name}"\n' for name in HEADERS) if target == "cc" else ""
        self.folder, self.lines = folder, len(text.splitlines())
        self._path = folder / "unit.c"
        self._path.write_text(f"{heads}{head}{TOLD}{text}")

    def compiled(self, compiler: str, *flags: str) -> str:
        """What the compiler says of it; it accepts it. flags: `-S` makes assembly."""
        kind = [] if "-S" in flags else ["-c"]
        command = [compiler, *flags, *kind, str(self._path), "-o", str(self.folder / "unit.o")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def functions(self) -> list[Function]:
        """Those that are phases, in their order: `k<kernel>_<phase>`."""
        self.compiled("gcc", *FLAGS, "-O0", "-march=native", "-fno-pic", "-ffunction-sections", "-w")
        command = ["readelf", "-SrW", str(self.folder / "unit.o")]
        table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        sections, *relocations = table.split("Relocation section ")
        calls: dict[str, list[str]] = {name: [] for name in re.findall(r" \.text\.(k\d+_\d+) ", sections)}
        for section in relocations:
            name = re.match(r"'\.rela?\.text\.(k\d+_\d+)'", section)
            if name:
                rows = re.findall(r"^([0-9a-f]{8,}) .* ([A-Za-z_.][\w.]*)(?: [-+] \w+)?$", section, re.M)
                calls[name[1]] = [symbol for _, symbol in sorted(rows)]
        order = sorted(calls, key=lambda name: [int(number) for number in name[1:].split("_")])
        return [Function(name, calls[name]) for name in order]

    def loops(self) -> list[int]:
        """Of the functions that are phases, in their order: how many each has, without what it calls."""
        flags = [flag for flag in FLAGS if flag != "-fopenmp-simd"]
        said = self.compiled("gcc", *flags, "-O0", "-march=native", "-w", "-fdump-tree-cfg=stderr")
        found = re.findall(r"^;; Function k(\d+)_(\d+) .*?^;; (\d+) loops found", said, re.M | re.S)
        assert found
        phases = {
            (int(kernel), int(phase)): int(loops) - 1 for kernel, phase, loops in found
        }  # the body is one
        return [phases[phase] for phase in sorted(phases)]

    def vectors(self, *flags: str) -> tuple[set[int], set[int]]:
        """The loops that compilers are told to make vectors of, and those that gcc has made, by lines."""
        said = self.compiled("gcc", *FLAGS, *FAST, *flags, "-fopt-info-vec-optimized")
        made = {int(line) for line in re.findall(r"unit\.c:(\d+):\d+: optimized: loop vectorized", said)}
        self.compiled("gcc", *FLAGS, "-S", "-w", "-DNOTE_TOLD")
        told = re.findall(r"# told (\d+)", (self.folder / "unit.o").read_text())
        return {int(line) + 1 for line in told}, made
