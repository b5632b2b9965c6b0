"""Loops that gcc must make vectors of, as it says itself: what it takes for a branch is ten times as slow."""

import platform
from pathlib import Path

import pytest

from tests.emit.unit import HAS_GCC, Unit

COLUMNS = """dlc 1 graph

fn columns[B in 4000..9999, N in 4000..9999](x: {t}[B, N]) -> ({t}[N]) {{
  let a: {t}[B, N] = add x, x
  let r: {t}[N] = {op} a axes=[0]
  ret r
}}
"""
ROWS = """dlc 1 graph

fn rows(x: {t}[4, 999], y: {t}[4, 999]) -> ({t}[4, 999]) {{
  let z: {t}[4, 999] = flip y axes=[0]
  let a: {t}[4, 999] = add x, z
  let m: {t}[4, 999] = {op} a, z
  let e: {t}[4, 999] = exp m
  ret e
}}
"""


pytestmark = pytest.mark.skipif(not HAS_GCC, reason="needs gcc, and finds none in PATH")


def check(text: str, folder: Path, *flags: str) -> None:
    """Each loop that gcc is told to make a vector of becomes one."""
    told, made = Unit(text, "cc", folder).vectors(*flags)
    assert told and told <= made


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
@pytest.mark.parametrize("op", ["sum", "prod", "amax", "amin"])
def test_columns(op: str, dtype: str, tmp_path: Path) -> None:
    check(COLUMNS.format(op=op, t=dtype), tmp_path)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("op", ["add", "div", "maximum", "hypot"])
def test_rows(op: str, dtype: str, tmp_path: Path) -> None:
    check(ROWS.format(op=op, t=dtype), tmp_path)


ANGLES = """dlc 1 graph

fn angles(x: {t}[4000, 999]) -> ({t}[4000, 999]) {{
  let a: {t}[4000, 999] = {op} x
  let b: {t}[4000, 999] = mul a, x
  ret b
}}
"""


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("dtype", ["bf16", "f32", "f64"])
@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_near_operands(op: str, dtype: str, tmp_path: Path) -> None:
    """What notes that an operand is far is a disjunction beside the loop, no way out of it."""
    check(ANGLES.format(op=op, t=dtype), tmp_path)


ONE_NUMBER = """dlc 1 graph

fn one_number(x: {t}[4000, 999], e: {t}[]) -> ({t}[4000, 999]) {{
  let b: {t}[4000, 999] = expand e to=[]
  let r: {t}[4000, 999] = {op} {operands}
  ret r
}}
"""


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", ["pow", "atan2", "hypot", "maximum", "nextafter", "logaddexp"])
@pytest.mark.parametrize("operands", ["x, b", "b, x"])
def test_one_number_for_all(op: str, operands: str, dtype: str, tmp_path: Path) -> None:
    """A condition that holds of all elements or of none is no reason for scalar code."""
    check(ONE_NUMBER.format(op=op, operands=operands, t=dtype), tmp_path)


CAST = """dlc 1 graph

fn cast(x: {t}[400, 999]) -> ({to}[400]) {{
  let a: {to}[400, 999] = cast x
  let r: {to}[400] = {op} a axes=[1]
  ret r
}}
"""


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("op", ["sum", "amax", "amin"])
@pytest.mark.parametrize(("dtype", "to"), [("f32", "i32"), ("f64", "i32"), ("f32", "i64"), ("f64", "i64")])
def test_whole_numbers_of_a_row(op: str, dtype: str, to: str, tmp_path: Path) -> None:
    """What does not fit is the least integer, which amax may skip: no reason for a branch."""
    flags = ["-mavx512dq", "-mavx512vl"] * (
        to == "i64" and platform.machine() == "x86_64"
    )  # has the instruction
    check(CAST.format(op=op, t=dtype, to=to), tmp_path, *flags)


BAGS = """dlc 1 graph

fn bags(x: f32[512, 64]) -> (f32[512, 64]) {
  let i: i64[4096] = iota axis=0
  let j: i64[4096] = remainder i, 500
  let b: i64[512, 8] = reshape j
  let r: f32[512, 8, 64] = gather x, b axis=0 wrap=1
  let s: f32[512, 64] = sum r axes=[1]
  ret s
}
"""


def test_bags(tmp_path: Path) -> None:
    """A row's index is one for all of its columns: chosen in their loop it would be a gather of each."""
    check(BAGS, tmp_path)


PADDED = """dlc 1 graph

fn padded[H in 1..inf, W in 1..inf](x: f32[1, {h}, {w}, 24], w: f32[32, 24]) -> (f32[1, {h1}, {w1}, 32]) {{
  let a: f32[1, {h}, {w}, 32] = contract x, w over="mpqk,nk->mpqn"
  let s: f32[1, {h}, {w}, 32] = sigmoid a
  let b: f32[1, {h}, {w}, 32] = mul a, s
  let c: f32[1, {h1}, {w1}, 32] = pad b, 0.0 lo=[0, 1, 1, 0]
  ret c
}}
"""


@pytest.mark.parametrize(
    "sizes",
    [("64", "128", "65", "129"), ("56", "112", "57", "113"), ("H", "W", "H + 1", "W + 1")],
    ids="x".join,
)
def test_divided_rows(sizes: tuple[str, str, str, str], tmp_path: Path) -> None:
    """The row of a tile is divided by the image's width: once, and not for each channel."""
    text = PADDED.format(**dict(zip(("h", "w", "h1", "w1"), sizes, strict=True)))
    check(text, tmp_path)
