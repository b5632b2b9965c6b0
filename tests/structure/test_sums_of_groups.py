"""Sums of groups, each times a number, are added in one kernel: no memory has the sums of all groups.

Programs are text: rows of bytes, codes of eight or four bits, a scale for each group of terms.
"""

from __future__ import annotations

import re

import pytest

from tests.dlc_opt import opt
from tests.structure.test_decoded_columns import largest_buffer, loops

CODES = {
    "bytes": ("i8[{g}, {k}, {n}]", []),
    "rows of bytes": ("i8[{n}, {g}, {k}]", ["c: i8[{g}, {k}, {n}] = permute w perm=[1, 2, 0]"]),
    "four bits": (
        "u8[{g}, {k} // 2, {n}]",
        ["a: u8[{g}, {k} // 2, 2, {n}] = expand w to=[0, 1, 3]", "i: u8[{g}, {k} // 2, 2, {n}] = iota axis=2",
         "j: u8[{g}, {k} // 2, 2, {n}] = mul i, 4", "h: u8[{g}, {k} // 2, 2, {n}] = shr a, j",
         "m: u8[{g}, {k} // 2, 2, {n}] = bit_and h, 15", "r: u8[{g}, {k}, {n}] = reshape m",
         "b: i8[{g}, {k}, {n}] = cast r", "c: i8[{g}, {k}, {n}] = sub b, 8"],
    ),
}  # fmt: skip


def program(codes: str, m: int | str, g: int, k: int, n: int, digits: int = 0) -> str:
    params, lets = CODES[codes]
    sizes = {"g": g, "k": k, "n": n}
    given, *body = (
        re.sub(r"(\d+) // 2", lambda e: str(int(e[1]) // 2), t.format(**sizes)) for t in (params, *lets)
    )
    d, letter = (f"{digits}, ", "d") if digits else ("", "")
    symbols = "[M in 1..inf]" if m == "M" else ""
    text = "".join(f"  let {let}\n" for let in body)
    return f"""dlc 1 graph

fn f{symbols}(x: i8[{d}{m}, {g}, {k}], w: {given}, s: f32[{g}, {n}]) -> (f32[{d}{m}, {n}]) {{
{text}  let t: i32[{d}{m}, {g}, {n}] = contract x, {"c" if body else "w"} over="{letter}mgk,gkn->{letter}mgn"
  let u: f32[{d}{m}, {g}, {n}] = cast t
  let y: f32[{d}{m}, {n}] = contract u, s over="{letter}mgn,gn->{letter}mn"
  let z: f32[{d}{m}, {n}] = maximum y, 0.0
  ret z
}}
"""


@pytest.mark.parametrize("target", ["cc", "tcc", "c"])
@pytest.mark.parametrize("m", [1, 300, "M"])
@pytest.mark.parametrize("codes", CODES)
def test_one_kernel(codes: str, m: int | str, target: str) -> None:
    """Its buffers have the totals of a block of rows, and panels of one group."""
    kernels = opt(program(codes, m, 128, 32, 512), "--pipeline")
    assert kernels.count("= kernel {") == 1
    text = loops(kernels, target)
    assert largest_buffer(text) <= 280 * 512
    assert len(re.findall(r"^    for ", text, re.MULTILINE)) == 1, "one phase"
    assert " = fma " in text


@pytest.mark.parametrize("target", ["cc", "tcc", "c"])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 4, 32, 40),
        (5, 3, 64, 33),
        (30, 2, 300, 16),
        ("M", 256, 2, 20),
        (3, 1, 32, 20),
        (2, 5, 2, 70),
        (15, 257, 2, 9),
    ],
    ids=str,
)
@pytest.mark.parametrize("codes", CODES)
def test_bits(codes: str, sizes: tuple[int, int, int, int], target: str) -> None:
    """Those of the two contractions; a sum of more groups than a chain has is not added so."""
    for digits in (0, 3):
        text = program(codes, *sizes, digits)
        opt(text, "--pipeline", "--eval", "1")
        opt(opt(text, "--pipeline"), "--pass", f"lower,schedule,{target}", "--eval", "2")
