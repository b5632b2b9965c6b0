"""Programs for high-level synthesis: what their C has, and that it runs here with the bits of dlc.

No such tool is run: none is free. A C compiler says what is C, and these tests what such tools refuse.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlc import ir
from tests.devices.nets import load
from tests.export.compilers import CLANG, STRICT, TCC, build, passes
from tests.export.test_export import SMALL
from tests.export.test_many import programs
from tests.export.test_weights import LINEAR

PRODUCT = """dlc 1 graph
fn product(a: f32[M, 70], b: f32[70, N], c: f32[N]) -> (f32[M, N], f32[M]) {
  let p: f32[M, N] = contract a, b over="mk,kn->mn"
  let r: f32[M, N] = expand c to=[1]
  let q: f32[M, N] = add p, r
  let z: f32[M, N] = exp q
  let s: f32[M] = sum z axes=[1]
  ret q, s
}
"""


def of_sizes(text: str, **sizes: int) -> ir.Function:
    """A program with numbers in place of its size symbols."""
    text = re.sub(r"^(fn \w+)\[[^\]]*\]", r"\1", text, flags=re.MULTILINE)
    for name, n in sizes.items():
        text = re.sub(rf"\b{name}\b(?=[\],])", str(n), text)
    return ir.parse(text)


def exported(function: ir.Function, folder: Path, **how: object) -> str:
    function.export_c(folder, target="hls", **how)  # type: ignore[arg-type]
    return (folder / "m.c").read_text()


def of_dlc(text: str) -> str:
    """The kernels, and the function that calls them: all behind the prelude."""
    return text[text.index("\n/* k0_0, phase of") :]


def body_of(text: str, at: int) -> str:
    """The text of the braces that open behind `at`."""
    begin = text.index("{", at)
    depth = 0
    for k in range(begin, len(text)):
        depth += (text[k] == "{") - (text[k] == "}")
        if depth == 0:
            return text[begin : k + 1]
    raise AssertionError("a brace is not closed")


def check_circuit(text: str) -> None:
    """What such tools want of C: arrays, constant bounds, pipelines that are innermost."""
    code = re.sub(r"/\*.*?\*/", "", of_dlc(text), flags=re.S)
    assert not re.search(r"\*\s*(?:const\s*)?\*", code)
    assert not re.search(r"\((?:const )?(?:void|char|float|double|u?int\d+_t) \*\)", code)
    assert not re.search(r"\b(?:const )?(?:void|char|float|double|u?int\d+_t) \*\w+", code)
    assert "malloc" not in code and "(*" not in code
    loops = list(re.finditer(r"for \(int64_t (\w+) = (\w+); \1 < ([^;]*); \1\+\+\)", code))
    assert len(loops) == code.count("for (")
    for loop in loops:
        assert loop[2].isdecimal() and loop[3].isdecimal(), loop[0]
        body = body_of(code, loop.end())
        if "#pragma HLS PIPELINE" in body.split("\n")[1]:
            assert "for (" not in body
    for name in re.findall(r"#pragma HLS ARRAY_PARTITION variable=(\w+) ", code):
        assert re.search(rf"\b{name}\[\d+\];\n#pragma HLS ARRAY_PARTITION variable={name} cyclic", code)


def same_bits(folder: Path) -> None:
    """With fused multiply-adds of the processor, and without."""
    for more in ((), ("-march=native", "-fno-math-errno")):
        assert "the bits are the same" in passes(build(folder, *STRICT, *more))


@pytest.mark.in_turn(6, "5-40")
@pytest.mark.parametrize("m", [1, 5, 17])
@pytest.mark.parametrize("n", [1, 15, 16, 40, 64])
def test_products_and_sums(m: int, n: int, tmp_path: Path) -> None:
    check_circuit(exported(of_sizes(PRODUCT, M=m, N=n), tmp_path))
    same_bits(tmp_path)


@pytest.mark.parametrize("n", [0, 1, 16, 257, 1030])
def test_rows(n: int, tmp_path: Path) -> None:
    """Rows without elements, and more than a block of a reduction."""
    check_circuit(exported(of_sizes(SMALL["softmax"], B=3, N=n), tmp_path))
    same_bits(tmp_path)


def test_marks_become_pragmas(tmp_path: Path) -> None:
    """vector: a loop with a pipeline; parallel: its arrays are cut, so that several are used at a time."""
    text = of_dlc(exported(of_sizes(PRODUCT, M=5, N=40), tmp_path))
    assert "float buf[448];\n#pragma HLS ARRAY_PARTITION variable=buf cyclic factor=16 dim=1\n" in text
    assert re.search(r"l1 < 32; l1\+\+\) \{\n#pragma HLS PIPELINE II=1\n", text)
    assert "m_run(const float a[350], const float b[2800], const float c[40], float" in text


@pytest.mark.in_turn(2, "spotter")
@pytest.mark.parametrize("name", ["spotter", "digits", "numpy"])
def test_models(name: str, tmp_path: Path) -> None:
    load(name, tmp_path).export_c(tmp_path, target="hls")
    check_circuit((tmp_path / "m.c").read_text())
    same_bits(tmp_path)


FIXED = [path for path in programs("tests/replay/corpus") if "_dynamic_" not in path.stem]


@pytest.mark.in_turn(40)
@pytest.mark.parametrize("path", FIXED, ids=lambda path: path.stem)
def test_captured_programs(path: Path, tmp_path: Path) -> None:
    function = ir.parse(path.read_text())
    try:
        text = exported(function, tmp_path)
    except ValueError as error:
        assert re.search("sizes that are numbers|complex|loops and branches|views of another", str(error))
        return
    check_circuit(text)
    assert "the bits are the same" in passes(build(tmp_path, *STRICT, "-march=native"))


@pytest.mark.parametrize("cc", [str(path) for path in (CLANG, TCC) if path])
def test_other_compilers(cc: str, tmp_path: Path) -> None:
    exported(of_sizes(PRODUCT, M=5, N=40), tmp_path)
    assert "the bits are the same" in passes(build(tmp_path, "-std=c11", cc=cc))


def weights(**arrays: np.ndarray) -> tuple[ir.Function, dict[str, np.ndarray]]:
    return ir.parse(LINEAR.replace("linear[B]", "linear").replace("[B, ", "[4, ")), arrays


def test_weights_are_arrays_of_their_type(tmp_path: Path) -> None:
    w = np.array([[-0.0, np.inf], [1e-45, 0.1], [-np.inf, 3e38]], np.float32)
    function, arrays = weights(w=w, b=np.ones(2, np.float32))
    text = exported(function, tmp_path, weights=arrays)
    assert "static const float dlc_weight1[6] = {" in text and "union" not in text[text.index("/* w */") :]
    numbers = re.search(r"dlc_weight1\[6\] = \{(.*?)\}", text, re.S)
    assert numbers
    read = [word.strip().rstrip("f") for word in numbers[1].split(",") if word.strip()]
    assert read[1] == "1.0f / 0.0" and read[4] == "-1.0f / 0.0"
    finite = np.array([float.fromhex(read[k]) for k in (0, 2, 3, 5)], np.float32)
    assert finite.tobytes() == w.ravel()[[0, 2, 3, 5]].tobytes()
    passes(build(tmp_path, *STRICT, "-march=native"))


INTEGERS = """dlc 1 graph
fn take(at: i64[3], w: T[4]) -> (T[3]) {
  let y: T[3] = gather w, at axis=0 wrap=1
  ret y
}
"""


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "bool", "float64"])
def test_the_least_and_the_largest_weight(dtype: str, tmp_path: Path) -> None:
    of = np.dtype(dtype)
    name = {"bool": "bool", "uint8": "u8"}.get(dtype, f"{dtype[0]}{of.itemsize * 8}")
    info: Any = np.finfo(of) if of.kind == "f" else np.iinfo(np.uint8 if of.kind == "b" else of)
    least, most = (0, 1) if of.kind == "b" else (info.min, info.max)
    function = ir.parse(INTEGERS.replace("T[", f"{name}["))
    exported(function, tmp_path, weights={"w": np.array([least, most, 0, 1], of)})
    same_bits(tmp_path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: (ir.parse(LINEAR), {}), "sizes that are numbers, and B is none"),
        (lambda: weights(w=np.full((3, 2), np.nan, np.float32), b=np.ones(2, np.float32)), "NaN"),
    ],
)
def test_what_is_refused(make: Callable[[], tuple[ir.Function, dict]], said: str, tmp_path: Path) -> None:
    function, arrays = make()
    with pytest.raises(ValueError, match=said):
        exported(function, tmp_path, weights=arrays)


def test_a_fault_is_a_status(tmp_path: Path) -> None:
    exported(ir.parse(INTEGERS.replace("T[", "f32[")), tmp_path)
    (tmp_path / "m_check.c").write_text(
        '#include "m.h"\nint main(void) {\n'
        "    int64_t at[3] = {0, 3, -1};\n    float w[4] = {1, 2, 3, 4}, y[3];\n"
        "    int good = m_run(at, w, y) == M_OK && y[2] == 4;\n    at[1] = 4;\n"
        "    return !(good && m_run(at, w, y) == M_INDEX);\n}\n"
    )
    passes(build(tmp_path, *STRICT, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"))


@pytest.mark.parametrize("target", ["c", "device", "hls"])
def test_the_command_takes_a_target(target: str, tmp_path: Path) -> None:
    (tmp_path / "f.dlc").write_text(of_sizes(SMALL["softmax"], B=3, N=20).text)
    command = [sys.executable, "-m", "dlc", "export", "f.dlc", "by_command", "--target", target]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    of_sizes(SMALL["softmax"], B=3, N=20).export_c(tmp_path / "by_python", target=target)
    files = sorted(path.name for path in (tmp_path / "by_python").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "by_command").iterdir())
    for name in files:
        assert (tmp_path / "by_python" / name).read_bytes() == (tmp_path / "by_command" / name).read_bytes()
