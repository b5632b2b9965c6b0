"""Exports for a small device, on an emulated Cortex-M4: bits, and bytes of flash, RAM and stack."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from dlc import ir
from tests.devices.cortex import measure
from tests.devices.machine import PROCESSORS, needs_machines
from tests.devices.nets import Spotter, load, saved
from tests.export.compilers import STRICT
from tests.export.test_weights import LINEAR

COUNT = {"spotter": 12, "digits": 10}


@needs_machines
@pytest.mark.in_turn(3, "digits-cortex-m4")
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", COUNT)
def test_bits_and_bytes(name: str, processor: str, tmp_path: Path) -> None:
    """The result is that of dlc.load; RAM is the arena and a bounded stack, whatever the input."""
    model = load(name, tmp_path)
    model.export_c(tmp_path, target="device")
    shape = (1, 1, 49, 10) if name == "spotter" else (1, 1, 28, 28)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    taken = measure(tmp_path, x, COUNT[name], processor)
    order = ">f4" if processor == "s390x" else "<f4"
    assert np.frombuffer(taken.result, order).astype("<f4").tobytes() == np.asarray(model(x)).tobytes()
    assert taken.weights == sum(array.nbytes for array in model.weights.values())
    if processor == "cortex-m4":
        assert taken.stack <= 4096 and taken.instructions > 0
        assert taken.data + taken.bss + taken.stack <= 1.5 * taken.arena


@needs_machines
def test_flash_is_the_weights_and_little_more(tmp_path: Path) -> None:
    """Of a net as large as those that are used: DS-CNN in its small size."""
    import torch

    x = torch.randn(1, 1, 49, 10)
    saved(Spotter(64, 4).eval(), (x,), None, tmp_path).export_c(tmp_path, target="device")
    taken = measure(tmp_path, x.numpy(), 12)
    assert taken.text <= 1.5 * taken.weights
    assert taken.data + taken.bss + taken.stack <= 1.5 * taken.arena


@needs_machines
def test_a_long_sum_has_a_short_stack(tmp_path: Path) -> None:
    """Its block of 1024 values is no array; the bits are those of the program."""
    text = "dlc 1 graph\nfn f(x: f32[4000]) -> (f32[]) {\n  let e: f32[4000] = exp x\n"
    function = ir.parse(text + "  let s: f32[] = sum e axes=[0]\n  ret s\n}\n")
    function.export_c(tmp_path, target="device")
    x = np.random.default_rng(0).normal(size=4000).astype(np.float32)
    taken = measure(tmp_path, x, 1)
    assert taken.result == np.asarray(function(x)).tobytes()
    assert taken.stack <= 1024


def linear() -> ir.Function:
    return ir.parse(LINEAR.replace("linear[B]", "linear").replace("[B, ", "[4, "))


WEIGHTS = {"w": np.ones((3, 2), np.float32), "b": np.ones(2, np.float32)}


def test_nothing_is_called_or_left_to_the_caller(tmp_path: Path) -> None:
    paths = linear().export_c(tmp_path, target="device", weights=WEIGHTS)
    assert {path.name for path in paths} == {"m.c", "m.h", "README.md"}
    subprocess.run(["gcc", *STRICT, "-march=native", "-c", "m.c"], cwd=tmp_path, check=True)
    names = subprocess.run(["nm", "m.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in names.splitlines()]
    assert {line[-1] for line in lines if line[-2] == "U"} <= {"memcpy", "memset"}
    assert {line[-1] for line in lines if line[-2] == "T"} == {"m_run"}
    assert "threads->" not in (tmp_path / "m.c").read_text()


@pytest.mark.parametrize("target", ["device", "hls"])
def test_sizes_become_numbers(target: str, tmp_path: Path) -> None:
    """The files are those of the program that has the number written in its text."""
    linear().export_c(tmp_path / "written", target=target, weights=WEIGHTS)
    paths = ir.parse(LINEAR).export_c(tmp_path / "given", target=target, weights=WEIGHTS, sizes={"B": 4})
    for path in paths:
        assert path.read_bytes() == (tmp_path / "written" / path.name).read_bytes()
    assert len(paths) >= 3


def test_sizes_become_numbers_in_bodies(tmp_path: Path) -> None:
    text = """dlc 1 graph
fn steps[N in 1..inf](x: f32[N], go: bool) -> (f32[N]) {
  let y: f32[N] = loop x, go carries=1 rows=0 steps=[N] (i: i64, c: f32[N], go: bool) {
    let d: f32[N] = branch go, c (c: f32[N]) {
      let n: i64 = size dim=N
      let w: f32 = cast n
      let s: f32[N] = expand w to=[]
      let e: f32[N] = add c, s
      ret e
    } else (c: f32[N]) {
      ret c
    }
    ret d
  }
  ret y
}
"""
    written = text.replace("[N in 1..inf]", "").replace("[N]", "[3]").replace("=N", "=3")
    ir.parse(written).export_c(tmp_path / "written", target="device")
    paths = ir.parse(text).export_c(tmp_path / "given", target="device", sizes={"N": 3})
    for path in paths:
        assert path.read_bytes() == (tmp_path / "written" / path.name).read_bytes()


def test_an_index_out_of_range_is_a_status(tmp_path: Path) -> None:
    text = "dlc 1 graph\nfn rows(x: f32[3, 2], at: i64[4]) -> (f32[4, 2]) {\n"
    text += "  let y: f32[4, 2] = gather x, at axis=0 wrap=1\n  ret y\n}\n"
    ir.parse(text).export_c(tmp_path, target="device")
    (tmp_path / "try.c").write_text(
        '#include "m.h"\n#include <stdio.h>\nint main(void) {\n'
        "    float x[6] = {1, 2, 3, 4, 5, 6}, y[8];\n    int64_t at[4] = {0, 1, 2, -1};\n"
        "    m_io io = {x, at, y};\n    int first = m_run(&io) == M_OK, last = (int)y[7];\n    at[1] = 3;\n"
        '    printf("%d %d %d", first, last, m_run(&io) == M_INDEX);\n    return 0;\n}\n'
    )
    flags = [*STRICT, "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *flags, "-o", "try", "try.c", "m.c"], cwd=tmp_path, check=True)
    done = subprocess.run(["./try"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "1 6 1"


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="sizes that are numbers, and B is none"):
        ir.parse(LINEAR).export_c(tmp_path, target="device", weights=WEIGHTS)
    bounded = ir.parse(LINEAR.replace("[B](", "[B in 8..64 % 8]("))
    with pytest.raises(ValueError, match="the size B cannot be 4: the program takes 8 to 64, multiples of 8"):
        bounded.export_c(tmp_path, target="device", weights=WEIGHTS, sizes={"B": 4})
    with pytest.raises(ValueError, match="the size B cannot be -1: the program takes 0 or more"):
        ir.parse(LINEAR).export_c(tmp_path, target="hls", weights=WEIGHTS, sizes={"B": -1})
    with pytest.raises(ValueError, match="has no size 'C'; it has B"):
        ir.parse(LINEAR).export_c(tmp_path, target="device", weights=WEIGHTS, sizes={"C": 4})
    with pytest.raises(ValueError, match="give the array of"):
        linear().export_c(tmp_path, target="device", weights=["w", "b"])
    with pytest.raises(ValueError, match="target is 'c', 'device' or 'hls'"):
        linear().export_c(tmp_path, target="board")


@pytest.mark.parametrize("target", ["device", "hls"])
def test_a_kernel_of_no_elements_is_not_called(target: str, tmp_path: Path) -> None:
    """The sum of nothing is 0, and what has no elements is not touched."""
    text = "dlc 1 graph\nfn none(x: f32[0, 8], z: f32[8]) -> (f32[0, 8], f32[8]) {\n"
    text += "  let y: f32[0, 8] = exp x\n  let s: f32[8] = sum y axes=[0]\n  let r: f32[8] = add s, z\n"
    ir.parse(text + "  ret y, r\n}\n").export_c(tmp_path, target=target)
    declared = (tmp_path / "m.h").read_text()
    first, second = re.findall(r"float \*?(\w+)(?:\[\d+\])?[;,)]", declared)[-2:]
    call = (
        "m_run(x, z, y, r)"
        if target == "hls"
        else f"m_run(&(m_io){{.x = x, .z = z, .{first} = y, .{second} = r}})"
    )
    (tmp_path / "try.c").write_text(
        '#include "m.h"\nint main(void) {\n    float x[1] = {1}, y[1] = {5}, r[8];\n'
        "    float z[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
        f"    return {call} != M_OK || y[0] != 5 || r[7] != 8;\n}}\n"
    )
    flags = [*STRICT, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run(["gcc", *flags, "-o", "try", "try.c", "m.c"], cwd=tmp_path, check=True)
    subprocess.run(["./try"], cwd=tmp_path, check=True)
