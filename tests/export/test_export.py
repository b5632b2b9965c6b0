"""Programs as plain C: what compiles them, what they call, and their bits.

Each folder of export_c has a check that compares the results of an example, bit for bit, with those of dlc.
The programs are small ones here, captured ones (tests/replay) and random ones in test_many.py.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import dlc
from dlc import ir
from tests.export.compilers import CLANG, NATIVE, STRICT, TCC, build, passes

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RUNTIME = ROOT / "csrc/codegen/export/runtime.h"

SOFTMAX = """dlc 1 graph
fn softmax[B, N](x: f32[B, N]) -> (f32[B, N]) {
  let m: f32[B] = amax x axes=[1]
  let mm: f32[B, N] = expand m to=[0]
  let d: f32[B, N] = sub x, mm
  let e: f32[B, N] = exp d
  let s: f32[B] = sum e axes=[1]
  let ss: f32[B, N] = expand s to=[0]
  let y: f32[B, N] = div e, ss
  ret y
}
"""
PRODUCT = """dlc 1 graph
fn product[M, K](a: f32[M, K], b: f32[K, 40], c: f32[40]) -> (f32[M, 40], f32[M]) {
  let p: f32[M, 40] = contract a, b over="mk,kn->mn"
  let r: f32[M, 40] = expand c to=[1]
  let q: f32[M, 40] = add p, r
  let z: f32[M, 40] = sqrt q
  let s: f32[M] = sum z axes=[1]
  ret q, s
}
"""
# One row reads its panels in an order of its own.
ROW = """dlc 1 graph
fn row[K](a: f32[1, K], b: f32[K, 100], c: f64[1, K], d: f64[K, 37]) -> (f32[1, 100], f64[1, 37]) {
  let p: f32[1, 100] = contract a, b over="mk,kn->mn"
  let q: f64[1, 37] = contract c, d over="mk,kn->mn"
  ret p, q
}
"""
# Names that C, the program or its functions have for something else; an index; sizes that are results.
NAMES = """dlc 1 graph
fn names[int, p](work: f32[int, p], for: i64[3]) -> (f32[3, p], i64) {
  let m: f32[3, p] = gather work, for axis=0 wrap=1
  let threads: f32[3, p] = neg m
  let fma: i64 = size dim=int*p
  ret threads, fma
}
"""
LOOP = """dlc 1 graph
fn steps[N](x: f32[N], y: f32[7, N]) -> (f32[N], f32[7, N]) {
  let c, all = loop x, y carries=1 steps=[7] (i: i64, c: f32[N], row: f32[N]) -> (f32[N], f32[N]) {
    let t: f32[N] = mul c, 0.5
    let u: f32[N] = add t, row
    ret u, t
  }
  ret c, all
}
"""
# Names of the functions, types and variables of a program, of its header and of the check.
OWN_NAMES = """dlc 1 graph
fn own[size_a, M_SIZE, int64_t](dlc_b: f32[size_a], state: f32[M_SIZE], m_status: f32[int64_t], hash: f32[3],
                                free: f32[3], m_run: f32[3], _: f32[3], M_H: f32[3]) -> (f32[3], f32[3]) {
  let example_share: f32[3] = add hash, free
  let take: f32[3] = mul m_run, M_H
  ret example_share, take
}
"""
SMALL = {"own": OWN_NAMES, "softmax": SOFTMAX, "product": PRODUCT, "row": ROW, "names": NAMES}


@pytest.fixture(params=sorted(SMALL))
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    ir.parse(SMALL[request.param]).export_c(tmp_path)
    return tmp_path


def test_the_strict_compiler_says_nothing_and_the_bits_are_those_of_dlc(folder: Path) -> None:
    """Without fused multiply-adds of the processor, and with them."""
    assert "the bits are the same" in passes(build(folder, *STRICT))
    assert "the bits are the same" in passes(build(folder, *STRICT, "-march=native", "-fno-math-errno"))


@pytest.mark.parametrize("standard", ["-std=gnu11", "-std=c17"])
def test_another_standard_fuses_nothing(folder: Path, standard: str) -> None:
    passes(build(folder, standard, "-O2", "-march=native"))


@pytest.mark.skipif(not CLANG, reason="needs clang, and finds none in PATH")
def test_clang(folder: Path) -> None:
    passes(build(folder, *STRICT, cc=str(CLANG)))
    passes(build(folder, *STRICT, "-march=native", cc=str(CLANG)))


@pytest.mark.skipif(not TCC, reason="needs the program tcc, and finds none in PATH")
def test_tcc(folder: Path) -> None:
    passes(build(folder, "-std=c11", "-Wall", "-Werror", cc=str(TCC)))


def test_nothing_is_called(folder: Path) -> None:
    for flags in ([], ["-march=native"]):
        subprocess.run(["gcc", *STRICT, *flags, "-c", "m.c"], cwd=folder, check=True)
        names = subprocess.run(["nm", "m.o"], cwd=folder, capture_output=True, text=True, check=True).stdout
        lines = [line.split() for line in names.splitlines()]
        assert {line[-1] for line in lines if line[-2] == "U"} <= {"memcpy", "memset"}
        assert {line[-1] for line in lines if line[-2] == "T"} == {"m_run", "m_workspace", "m_message"}
        assert not [line for line in lines if line[-2] in "DdBbCG"], "a variable that is written"


def test_sanitizers_find_nothing(folder: Path) -> None:
    flags = ["-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    passes(build(folder, *flags))
    passes(build(folder, *flags, "-DCHECK_THREADS=3", "-pthread"))


def test_headers_and_two_programs_in_one(tmp_path: Path) -> None:
    for name in ("softmax", "product"):
        ir.parse(SMALL[name]).export_c(tmp_path, name)
    (tmp_path / "both.cpp").write_text(
        '#include "softmax.h"\n#include "product.h"\n'
        "int main() { return softmax_workspace(2, 3) == 0 || product_workspace(2, 3) == 0 "
        "|| softmax_workspace(-1, 3) != 0 || *product_message(product_SIZE) == 0; }\n".replace(
            "product_SIZE", "PRODUCT_SIZE"
        )
    )
    subprocess.run(["gcc", *STRICT, "-c", "softmax.c", "product.c"], cwd=tmp_path, check=True)
    command = ["g++", "-Wall", "-Wextra", "-Werror", "-o", "both", "both.cpp", "softmax.o", "product.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./both"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("m", [0, 1, 2, 17])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 257, 1030])
def test_sizes_stay_parameters(tmp_path: Path, m: int, n: int) -> None:
    """The program is the same whatever the example is, and right for all sizes."""
    for name, sizes in (("softmax", {"B": m, "N": max(n, 1)}), ("product", {"M": m, "K": n})):
        ir.parse(SMALL[name]).export_c(tmp_path / name, sizes=sizes)
        ir.parse(SMALL[name]).export_c(tmp_path / "usual")
        assert (tmp_path / name / "m.c").read_text() == (tmp_path / "usual/m.c").read_text()
        passes(build(tmp_path / name, *NATIVE, "-DCHECK_THREADS=3", "-pthread"))


def test_the_check_finds_another_result(tmp_path: Path) -> None:
    ir.parse(SOFTMAX).export_c(tmp_path)
    program = tmp_path / "m.c"
    text = program.read_text()
    assert "const float d" in text
    program.write_text(text.replace("/ sum", "* sum"))
    done = subprocess.run([str(build(tmp_path, *NATIVE))], capture_output=True, text=True)
    assert done.returncode == 1 and "the bits are others" in done.stdout


def test_an_index_out_of_range_is_a_status(tmp_path: Path) -> None:
    ir.parse(NAMES).export_c(tmp_path)
    (tmp_path / "try.c").write_text(
        '#include "m.h"\n#include <stdio.h>\n'
        "int main(void) {\n    float x[4] = {1, 2, 3, 4}, y[6];\n    int64_t at[3] = {0, 1, 2}, n;\n"
        "    char work[4096];\n    puts(m_message(m_run(2, 2, x, at, y, &n, work, NULL)));\n"
        "    at[2] = -2;\n    puts(m_message(m_run(2, 2, x, at, y, &n, work, NULL)));\n"
        '    printf("%g %g %d\\n", y[4], y[5], (int)n);\n'
        "    puts(m_message(m_run(2, 2, x, at, y, &n, NULL, NULL)));\n"
        "    puts(m_message(m_run(-2, 2, x, at, y, &n, work, NULL)));\n    return 0;\n}\n"
    )
    subprocess.run(["gcc", *STRICT, "-o", "try", "try.c", "m.c"], cwd=tmp_path, check=True)
    said = subprocess.run(["./try"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "an index in an input is out of range",
        "it has run",
        "-1 -2 4",
        "there is no workspace",
        "these sizes are not allowed: see the header",
    ]


def run_c(folder: Path, body: str) -> str:
    """What a main of these statements prints, built with sanitizers."""
    text = (
        '#include "m.h"\n#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n'
        + body
        + "    return 0;\n}\n"
    )
    (folder / "try.c").write_text(text)
    flags = [*STRICT, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *flags, "-o", "try", "try.c", "m.c"], cwd=folder, check=True)
    return subprocess.run(["./try"], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_each_size_is_checked_whatever_the_others_are_called(tmp_path: Path) -> None:
    text = """dlc 1 graph
fn two[BN in 1..9, N in 1..9](x: f32[BN], y: f32[N]) -> (f32[BN], f32[N]) {
  let z: f32[BN] = neg x
  let w: f32[N] = neg y
  ret z, w
}
"""
    ir.parse(text).export_c(tmp_path)
    row = 'printf("%d ", m_workspace(BN, N) > 0);'
    body = "".join(f"    {row.replace('BN, N', f'{a}, {b}')}\n" for a, b in ("34", "30", "04", ("3", "10")))
    assert run_c(tmp_path, body) == "1 0 0 0 "


# Three values that are never alive at once, of sizes that nobody can compare: the last has 256 bytes.
ROOMS = """dlc 1 graph
fn rooms[N, M](x: f32[N, 256], y: f32[M, 256], z: f32[256], w: f32[256, 256], v: f32[256, 64], u: f32[64, 64])
    -> (f32[N, 256], f32[M, 256], f32[64]) {
  let a: f32[N, 256] = contract x, w over="mk,kn->mn"
  let b: f32[N, 256] = contract a, w over="mk,kn->mn"
  let c: f32[M, 256] = contract y, w over="mk,kn->mn"
  let d: f32[M, 256] = contract c, w over="mk,kn->mn"
  let e: f32[64] = contract z, v over="k,kn->n"
  let f: f32[64] = contract e, u over="k,kn->n"
  ret b, d, f
}
"""


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("m", [0, 1, 5])
def test_a_workspace_has_room_for_each_value(tmp_path: Path, n: int, m: int) -> None:
    ir.parse(ROOMS).export_c(tmp_path, sizes={"N": n, "M": m})
    flags = ["-std=c11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    passes(build(tmp_path, *flags))


def test_results_are_kept_until_they_are_copied(tmp_path: Path) -> None:
    """Results that are parts of values, and two that are one value."""
    text = """dlc 1 graph
fn parts[N in 2..100](x: f32[N, 64], w: f32[64, 64]) -> (f32[N - 1, 64], f32[N, 64],
    f32[N, 64], f32[N, 64], f32[N, 64]) {
  let a: f32[N, 64] = contract x, w over="mk,kn->mn"
  let part: f32[N - 1, 64] = slice a axis=0 start=1 step=1
  let b: f32[N, 64] = contract a, w over="mk,kn->mn"
  let c: f32[N, 64] = contract b, w over="mk,kn->mn"
  let d: f32[N, 64] = contract c, w over="mk,kn->mn"
  ret part, a, d, d, x
}
"""
    ir.parse(text).export_c(tmp_path)
    passes(build(tmp_path, *STRICT))


def test_a_line_of_the_user_may_say_anything(tmp_path: Path) -> None:
    text = (
        SOFTMAX.replace("[B, N]", "[3, 4]", 1)
        .replace("[B", "[3")
        .replace("N]", "4]")
        .replace("[3, 4](", "(", 1)
    )
    text = text.replace("exp d", 'exp d @"at[0] */ /* %s" "at[1].py:3 \\\\"')
    ir.parse(text).export_c(tmp_path)
    assert "at[0]" in (tmp_path / "m.c").read_text()
    passes(build(tmp_path, *STRICT))


def test_a_line_of_the_user_is_no_use_of_a_function(tmp_path: Path) -> None:
    """It stands in a comment: clang would say of what is there for it that nothing uses it."""
    ir.parse(SOFTMAX.replace("exp d", 'exp d @"of sqrt(d)"')).export_c(tmp_path)
    text = (tmp_path / "m.c").read_text()
    assert "of sqrt(d)" in text and "define sqrt" not in text


def test_a_workspace_beyond_the_addresses_of_a_machine_is_refused(tmp_path: Path) -> None:
    """As on a machine whose size_t has 32 bits."""
    ir.parse(ROOMS).export_c(tmp_path)
    for name in ("m.c", "m.h"):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text.replace("size_t", "uint32_t").replace("SIZE_MAX", "UINT32_MAX"))
    body = "".join(
        f'    printf("%d ", m_workspace({n}, 3) > 0);\n' for n in (3, 1 << 20, 1 << 22, 1 << 24, 1 << 62)
    )
    assert run_c(tmp_path, body) == "1 1 0 0 0 "


def test_integers_wrap_with_any_flags_of_gcc(tmp_path: Path) -> None:
    """A compiler that takes sums for numbers without a limit finds that all x + 1 are greater than x."""
    text = """dlc 1 graph
fn next[N](x: i32[N]) -> (bool[N]) {
  let y: i32[N] = add x, 1
  let z: bool[N] = gt y, x
  ret z
}
"""
    ir.parse(text).export_c(tmp_path)
    (tmp_path / "try.c").write_text(
        '#include "m.h"\n'
        "int main(void) {\n    int32_t x[2] = {5, INT32_MAX};\n    uint8_t z[2];\n    char work[4096];\n"
        "    return m_run(2, x, z, work, NULL) != M_OK || z[0] != 1 || z[1] != 0;\n}\n"
    )
    subprocess.run(["gcc", *STRICT, "-o", "try", "try.c", "m.c"], cwd=tmp_path, check=True)
    subprocess.run(["./try"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("flags", [[], ["-DDLC_DIGITS"]])
def test_functions_in_place_of_the_c_librarys(tmp_path: Path, flags: list[str]) -> None:
    """For operands of any kind, each has the bits of the C library's."""
    (tmp_path / "own.c").write_text(RUNTIME.read_text() + (HERE / "own.c").read_text())
    warn = ["-Wall", "-Wextra", "-Wpedantic", "-Wno-unused-function", "-Werror"]
    command = ["gcc", "-std=c11", "-O2", *warn, *flags, "-o", "own", "own.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./own"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_names_of_programs_that_differ_by_case_alone(tmp_path: Path) -> None:
    names = ["soft", "Soft", "SOFT", "soft_status"]
    for name in names:
        ir.parse(SOFTMAX).export_c(tmp_path / name, name)
        shutil.copy(tmp_path / name / f"{name}.h", tmp_path)
        subprocess.run(["gcc", *STRICT, "-c", f"{name}/{name}.c"], cwd=tmp_path, check=True)
    uses = ["SOFT_OK", "Soft_status_OK", "SOFT_status_OK", "SOFT_STATUS_OK"]
    runs = " + ".join(
        f"({name}_workspace(2, 3) == 0) + (int){use}" for name, use in zip(names, uses, strict=True)
    )
    includes = "".join(f'#include "{name}.h"\n' for name in names)
    (tmp_path / "all.cpp").write_text(f"{includes}int main() {{ return {runs}; }}\n")
    objects = [f"{name}.o" for name in names]
    command = ["g++", "-Wall", "-Wextra", "-Werror", "-o", "all", "all.cpp", *objects]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./all"], cwd=tmp_path, check=True)


WIDE = """dlc 1 graph
fn wide[A, B, C](x: f32[A, B, C], y: f32[A, C, 5], z: f32[A*B*3]) -> (f32[A, B, 5], f32[A*B*3], f32[A, C]) {
  let p: f32[A, B, 5] = contract x, y over="abc,acd->abd"
  let e: f32[A*B*3] = exp z
  let s: f32[A, C] = sum x axes=[1]
  ret p, e, s
}
"""


def test_absurd_sizes_are_refused(tmp_path: Path) -> None:
    """Also beside a size of 0, where no array is large: no formula has more than 64 bits."""
    ir.parse(WIDE).export_c(tmp_path)
    some = [0, 1, 3, 2**20, 2**31, 2**32 + 1, 2**40, 2**61, 2**62, 2**63 - 1]
    sizes = ", ".join(f"INT64_C({n})" for n in some)
    body = (
        f"    const int64_t n[] = {{{sizes}}};\n    int allowed = 0;\n"
        f"    for (int k = 0; k < {len(some) ** 3}; k++) {{\n"
        f"        int64_t a = n[k % {len(some)}], b = n[k / {len(some)} % {len(some)}],"
        f" c = n[k / {len(some) ** 2}];\n"
        "        size_t bytes = m_workspace(a, b, c);\n        allowed += bytes > 0;\n"
        "        double room = 4.0 * (double)a * (double)b * (double)c;\n"
        "        if (bytes > 0 && room > 0x1p52) return 1;\n"
        "        if (bytes > 0 && a == 0) { /* nothing is computed, and no array is there */\n"
        "            float none[1];\n            char *work = malloc(bytes < 1 << 20 ? bytes : 1);\n"
        "            if (bytes < 1 << 20 && m_run(a, b, c, none, none, none, none, none, none, work, NULL))"
        " return 2;\n            free(work);\n        }\n    }\n"
        '    printf("%d", allowed > 27);\n'
    )
    assert run_c(tmp_path, body) == "1"


def test_programs_of_fixed_sizes_that_no_machine_has(tmp_path: Path) -> None:
    for size in (2**40, 2**50, 2**60, 2**62, 2**63 - 1):
        text = "dlc 1 graph\nfn f(x: f32[N], y: f32[2, N]) -> (f32[], f32[N]) {\n  let e: f32[N] = exp x\n"
        text += "  let s: f32[] = sum e axes=[0]\n  let t: f32[N] = sum y axes=[0]\n  ret s, t\n}\n"
        with pytest.raises((ValueError, MemoryError, dlc.CaptureError, dlc.InternalError)):
            ir.parse(text.replace("N", str(size))).export_c(tmp_path)
    assert not os.listdir(tmp_path)


def test_all_operators_that_c_lacks_are_named_at_once(tmp_path: Path) -> None:
    text = """dlc 1 graph
fn f[N](x: f32[N], go: bool) -> (f32[N], f32[N], f32[N]) {
  let a: f32[N] = call x target="aten.first.default" site=0 @"one" "model.py:3"
  let b: f32[N] = call a target="aten.second.default" site=1 @"two" "model.py:4"
  let c: f32[N] = branch go, b (t: f32[N]) {
    let u: f32[N] = call t target="aten.third.default" site=2 @"three" "model.py:6"
    ret u
  } else (t: f32[N]) {
    let u: f32[N] = exp t
    ret u
  }
  ret a, b, c
}
"""
    with pytest.raises(dlc.CaptureError) as caught:
        ir.parse(text).export_c(tmp_path)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("3 operators cannot become C")
    assert lines[1:4] == [
        "  aten.first.default (one, model.py:3)",
        "  aten.second.default (two, model.py:4)",
        "  aten.third.default (three, model.py:6)",
    ]


def test_what_is_refused(tmp_path: Path) -> None:
    program = ir.parse(SOFTMAX)
    with pytest.raises(ValueError, match="cannot begin the names of a program"):
        program.export_c(tmp_path, "2m")
    with pytest.raises(ValueError, match="has no size 'K'"):
        program.export_c(tmp_path, sizes={"K": 3})
    with pytest.raises(ValueError, match="does not allow these sizes"):
        program.export_c(tmp_path, sizes={"B": -3})
    for target, n in itertools.product(("c", "device", "hls"), (2**63, -(2**63) - 1, 10**30)):
        with pytest.raises(ValueError, match=f"B = {n} is no size"):
            program.export_c(tmp_path, sizes={"B": n, "N": 3}, target=target)
    with pytest.raises(ValueError, match="B = 9223372036854775808 is no size"):
        program(np.ones((2, 3), np.float32), B=2**63)
    for no_size in ("3", None, 3.5):
        with pytest.raises(TypeError, match=f"B = {no_size!r} is no size: one is an int"):
            program.export_c(tmp_path, sizes={"B": no_size})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="threads is from 1 to 256"):
        program.export_c(tmp_path, threads=0)
    with pytest.raises(ValueError, match="a program of the graph stage becomes C"):
        program.run_pass("pipeline").export_c(tmp_path)
    assert not os.listdir(tmp_path)


def test_the_make_file(tmp_path: Path) -> None:
    paths = ir.parse(SOFTMAX).export_c(tmp_path / "a/b", "soft")
    assert {path.name for path in paths} == {"soft.c", "soft.h", "soft_check.c", "Makefile", "README.md"}
    done = subprocess.run(["make"], cwd=tmp_path / "a/b", capture_output=True, text=True)
    assert done.returncode == 0 and "the bits are the same" in done.stdout


def test_the_softmax_of_the_page() -> None:
    """The interpreter and the program agree up to rounding: what the page says of it is a softmax."""
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(ir.parse(SOFTMAX)(x), e / e.sum(1, keepdims=True), rtol=1e-6)
