"""Portable C: reductions down rows run for many columns at once, in arrays of a row of a panel."""

from __future__ import annotations

import re

import pytest

from tests.dlc_opt import opt

ARRAY = {"f32": 32, "f64": 16, "i32": 32, "i64": 16}


def program(op: str, dtype: str, columns: int | str) -> str:
    symbols = "R in 1..inf, " + ("N in 1..inf, " if columns == "N" else "")
    return f"""dlc 1 graph

fn f[{symbols[:-2]}](x: {dtype}[R, {columns}]) -> ({dtype}[{columns}]) {{
  let t: {dtype}[R, {columns}] = mul x, x
  let y: {dtype}[{columns}] = {op} t axes=[0]
  ret y
}}
"""


@pytest.mark.parametrize("columns", [17, 31, 32, 33, 64, 255, 256, 257, 1000, "N"])
@pytest.mark.parametrize(("op", "dtype"), [("sum", "f32"), ("sum", "i64"), ("amax", "f64"), ("amin", "f32")])
def test_columns_are_computed_together(op: str, dtype: str, columns: int | str) -> None:
    """The loop over columns is inside of that over rows; the values are the interpreter's."""
    text = opt(program(op, dtype, columns), "--pipeline")
    made = opt(text, "--pass", "lower,schedule,c")
    buffers = re.findall(r"(\w+): \w+\[(\d+)\] = buffer registers", made)
    assert [int(n) for _, n in buffers] == [ARRAY[dtype]]
    inner = re.findall(r"for \w+ in [^\n]* {\n +for \w+ in [^\n]* vector {\n +let \w+: \w+ = load x", made)
    assert inner, made
    assert not re.search(rf"reduce {op} \w+ in min", made), made
    for rows in (1, 2, 63, 64, 65, 130):
        sizes = f"R={rows}" + (",N=77" if columns == "N" else "")
        opt(opt(text, "--size", sizes), "--pass", "lower,schedule,c", "--emit", "none", "--eval", "1")
