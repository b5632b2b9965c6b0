"""The portable C: it is C11, and needs <stdint.h> and functions of the C library alone.

`build/test-emit` compares its bits with those of the other targets (test_emit.py), and so does
`build/test-fuzz` (tests/fuzz). Here all compilers there are have nothing to say about it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.ulp.strips import available
from tests.emit.unit import Unit
from tests.emit.written import HERE, PROGRAM, ROOT

FILES = sorted(HERE.glob("*.dlc"))
CORPUS = sorted((ROOT / "tests/replay/corpus").glob("*.dlc"))
STRICT = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wvla"]
COMPILERS = {"gcc": [*STRICT, "-O1"], "clang": [*STRICT, "-O1"], "tcc": ["-Wall", "-Werror"]}
FOUND = [name for name in COMPILERS if shutil.which(name)]


def check(path: Path, folder: Path) -> None:
    unit = Unit(path.read_text(), "c", folder)
    assert FOUND
    for name in FOUND:
        assert unit.compiled(name, *COMPILERS[name]) == "", name


@pytest.mark.in_turn(8, "softmax", "product", "rows_of_images")
@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_compilers_have_nothing_to_say(name: str, tmp_path: Path) -> None:
    check(HERE / f"{name}.dlc", tmp_path)


@pytest.mark.in_turn(16)
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_of_models_neither(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)


NUMBERS = ["i32", "i64", "f32", "f64", "u8", "i8", "i16", "f16", "bf16"]
FLOATS = ["f32", "f64", "f16", "bf16"]
OPERANDS = {
    "NUM": NUMBERS,
    "FLOAT": FLOATS,
    "SAME": [*NUMBERS, "bool"],
    "CMP": [*NUMBERS, "bool"],
    "PRED": FLOATS,
    "INT": ["bool", "i32", "i64", "u8", "i8", "i16"],
    "BOOL": ["bool"],
}


def every_operation(dtype: str) -> str:
    """A kernel of each row of ops.def that takes the dtype, and of casts from it."""
    rows = re.findall(r"^MAP\( *(\w+), *(\d), *(\w+),", (ROOT / "csrc/ir/ops.def").read_text(), re.MULTILINE)
    made = [
        ("bool" if kind in ("CMP", "PRED", "BOOL") else dtype, f"{name} {', '.join('xyx'[: int(arity)])}")
        for name, arity, kind in rows
        if dtype in OPERANDS.get(kind, ())
    ]
    made += [(to, "cast x") for to in [*NUMBERS, "bool"] if to != dtype]
    types = ", ".join(f"{to}[N]" for to, _ in made)
    results = ", ".join(f"o{k}: {to}[N]" for k, (to, _) in enumerate(made))
    lets = "\n".join(f"    let r{k}: {to}[N] = {text}" for k, (to, text) in enumerate(made))
    head = f"dlc 1 kernels\n\nfn ops[N in 1..inf](x: {dtype}[N], y: {dtype}[N]) -> ({types}) {{\n"
    all_of = [", ".join(f"{letter}{k}" for k in range(len(made))) for letter in "ro"]
    return f"{head}  let {results} = kernel {{\n{lets}\n    ret {all_of[0]}\n  }}\n  ret {all_of[1]}\n}}\n"


@pytest.mark.in_turn(5)
@pytest.mark.parametrize("dtype", [*NUMBERS, "bool"])
def test_every_operation(dtype: str, tmp_path: Path) -> None:
    """So each function of the math header that a program can name is C11, and has the same bits."""
    path = tmp_path / "ops.dlc"
    path.write_text(every_operation(dtype))
    check(path, tmp_path)
    command = [PROGRAM, path, "N=300", "special=1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif("avx2" not in available(), reason="needs AVX2, which fuses multiply-adds")
@pytest.mark.parametrize("name", ["softmax", "product"])
def test_a_processor_without_fused_multiply_adds(name: str) -> None:
    """The C library fuses them there too, and the other targets round twice: the column `fused`."""
    done = subprocess.run(
        [PROGRAM, HERE / f"{name}.dlc"],
        capture_output=True, text=True, timeout=300, env=os.environ | {"DLC_ISA": "sse2"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


#: Words of GNU C: a compiler refuses a unit in which one stands.
NO_GNU = """#include <stdint.h>
#pragma GCC poison __attribute__ __attribute __extension__ __typeof__ __typeof typeof __asm__ __asm asm
#pragma GCC poison __inline__ __inline __restrict__ __restrict __alignof__ __label__ __auto_type
#pragma GCC poison __builtin_expect __builtin_inf __builtin_inff __builtin_nan __builtin_nanf
#pragma GCC poison __builtin_prefetch __builtin_memcpy __builtin_fma __builtin_fmaf
#pragma GCC poison __builtin_sqrt __builtin_sqrtf
"""


@pytest.mark.skipif("gcc" not in FOUND, reason="needs gcc, and finds none in PATH")
@pytest.mark.parametrize("name", ["softmax", "scatter", "near", "product"])
def test_a_unit_has_what_it_uses_of_the_prelude_and_nothing_else(name: str, tmp_path: Path) -> None:
    """No header but one, no word of GNU C, and no function that nothing calls (-Wunused-function)."""
    said = Unit((HERE / f"{name}.dlc").read_text(), "c", tmp_path).compiled("gcc", *STRICT, "-H")
    headers = re.findall(r"^\. (.*)$", said, re.MULTILINE)
    assert [Path(header).name for header in headers] == ["stdint.h"]
    strict = Unit((HERE / f"{name}.dlc").read_text(), "c", tmp_path, NO_GNU)
    assert strict.compiled("gcc", *STRICT, "-Wunused-function") == ""


def test_no_name_of_a_program_hides_a_function(tmp_path: Path) -> None:
    """Values called as functions of the C library: locals, which the prelude's functions do not see."""
    names = ["fma", "fmaf", "floor", "fabs", "sqrt", "rint", "trunc", "copysign"]
    head = ", ".join(f"{name}: f64[N]" for name in names)
    sums = [f"    let s{k + 1}: f64[N] = pow s{k}, {name}" for k, name in enumerate(names)]
    lines = [
        "dlc 1 kernels", "", f"fn f[N in 1..inf]({head}) -> (f64[N]) {{", "  let r: f64[N] = kernel {",
        "    let s0: f64[N] = floor floor", *sums, f"    ret s{len(names)}", "  }", "  ret r", "}", "",
    ]  # fmt: skip
    path = tmp_path / "names.dlc"
    path.write_text("\n".join(lines))
    check(path, tmp_path)


def test_a_value_that_is_compared_with_itself(tmp_path: Path) -> None:
    lets = [f"    let r{k}: bool[N] = {op} x, x" for k, op in enumerate(["eq", "ne", "lt", "ge"])]
    head = "dlc 1 kernels\n\nfn f[N in 1..inf](x: i64[N]) -> (bool[N], bool[N], bool[N], bool[N]) {\n"
    results = "  let a: bool[N], b: bool[N], c: bool[N], d: bool[N] = kernel {\n"
    path = tmp_path / "itself.dlc"
    path.write_text(
        head + results + "\n".join([*lets, "    ret r0, r1, r2, r3", "  }", "  ret a, b, c, d", "}", ""])
    )
    check(path, tmp_path)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "u8", "i64"])
def test_a_load_is_not_read_behind_a_store_to_its_element(dtype: str, tmp_path: Path) -> None:
    """y is in place of x: what is loaded before the first store is a variable, and keeps its value."""
    lines = [
        "dlc 1 loops", "", f"fn f[N in 1..inf](x: {dtype}[N]) -> ({dtype}[N], {dtype}[N]) {{",
        f"  let y: {dtype}[N] over x, z: {dtype}[N] = kernel {{", "    for i in N parallel {",
        f"      let a: {dtype} = load x[i]", f"      let b: {dtype} = add a, 1", "      store y[i] = b",
        f"      let c: {dtype} = mul a, 3", "      store z[i] = c", "    }", "  }", "  ret y, z", "}", "",
    ]  # fmt: skip
    path = tmp_path / "store.dlc"
    path.write_text("\n".join(lines))
    check(path, tmp_path)
