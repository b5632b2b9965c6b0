"""No loop over k of a microkernel reads or writes the stack: all sums stay in registers."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.ulp.strips import CSRC, FLAGS
from tests.micro.disassembly import functions, inner_loops, of_the_stack
from tests.micro.library import ROWS, SOURCE
from tests.objects import OBJECTS

# What a compiler makes with the flags of csrc/build.mk is tested, not what tests load.
MK = (CSRC / "build.mk").read_text()
KERNEL = re.compile(r"^(part|thin|half|whole|several|transposed_(one|some))_(f32|f64)_\d+$")
CLANG = next(filter(shutil.which, ("clang", "clang-14")), "clang")
MULTIPLIES = re.compile(r"^v?f?n?(fmadd|mulp|mul|madd)")


def isa_flags(isa: str) -> list[str]:
    rows = dict(re.findall(r"^ISA_(\w+)\s*=\s*(.*)$", MK, re.M))
    return re.sub(r"\$\(ISA_(\w+)\)", lambda m: rows[m[1]], rows[isa]).split()


def compiled(compiler: str, isa: str, folder: Path) -> Path:
    """The object that `make` has made, or another compiler's."""
    if compiler == "built":
        return OBJECTS / f"codegen/micro/micro_{isa}.isa.o"
    if not shutil.which(compiler):
        pytest.skip(f"needs {compiler}, and finds none in PATH")
    target, flags = folder / "micro.o", [f for f in FLAGS if f != "-shared"]
    command = [compiler, *flags, "-O3", "-g0", f"-I{CSRC}", f"-DDLC_ISA={isa}", *isa_flags(isa), "-c"]
    subprocess.run([*command, str(SOURCE), "-o", str(target)], check=True)
    return target


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the instructions of x86-64")
@pytest.mark.in_turn(4, "built")
@pytest.mark.parametrize("compiler", ["built", CLANG])
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_loops_leave_the_stack_alone(tmp_path: Path, compiler: str, isa: str) -> None:
    target = compiled(compiler, isa, tmp_path)
    loops = 0
    for name, code in functions(target).items():
        if KERNEL.match(name):
            bodies = inner_loops(code)
            if name.startswith("transposed") and compiler != "built":
                continue  # clang 14 keeps some of their sums in memory
            for body in bodies:
                if any(MULTIPLIES.match(word) for _, word, _ in body):
                    loops += 1
                    stack = of_the_stack(code, body)
                    if name.startswith("transposed"):  # its pointers leave no register for the counter
                        stack = [part for part in stack if "mm" in part[2]]
                    assert not stack, name
    heights = ROWS if isa == "avx512" else 6
    assert loops >= 2 * heights  # of both types


def test_a_spill_is_seen(tmp_path: Path) -> None:
    """Twenty sums are more than AVX2 has registers."""
    source, target = tmp_path / "spill.c", tmp_path / "spill.o"
    source.write_text(
        "#include <immintrin.h>\n"
        "void part_f32_1(__m256 *t, const __m256 *b, long k) {\n"
        "    __m256 s[20];\n"
        "    for (int i = 0; i < 20; i++) s[i] = t[i];\n"
        "    for (; k; k--, b++) {\n"
        "#pragma GCC unroll 20\n"
        "        for (int i = 0; i < 20; i++) s[i] = _mm256_fmadd_ps(b[0], b[i], s[i]);\n"
        "    }\n"
        "    for (int i = 0; i < 20; i++) t[i] = s[i];\n"
        "}\n"
    )
    subprocess.run(["gcc", "-O3", "-mavx2", "-mfma", "-c", str(source), "-o", str(target)], check=True)
    code = functions(target)["part_f32_1"]
    assert any(of_the_stack(code, body) for body in inner_loops(code))
