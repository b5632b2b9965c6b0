"""What a mask excludes is left out of the loops where its rows are those of a block, and only there."""

import re

import pytest

from ..dlc_opt import opt

SCORES = """dlc 1 graph

fn attention(q: f32[4, 200, 64], k: f32[4, 200, 64], v: f32[4, 200, 64]) -> (f32[4, 200, 64]{type}) {{
  let c: f32[4, 200, 200] = contract q, k over="htd,hsd->hts"
  let i: i64[4, 200, 200] = iota axis=2
  let j: i64[4, 200, 200] = iota axis=1
  {condition}
  let w: f32[4, 200, 200] = where seen, c, {least}
  let m: f32[4, 200] = amax w axes=[2]
  let n: f32[4, 200, 200] = expand m to=[0, 1]
  let d: f32[4, 200, 200] = sub w, n
  let e: f32[4, 200, 200] = exp d
  let z: f32[4, 200] = sum e axes=[2]
  let r: f32[4, 200, 200] = expand z to=[0, 1]
  let p: f32[4, 200, 200] = div e, r
  let y: f32[4, 200, 64] = contract p, v over="hts,hse->hte"
  ret y{result}
}}
"""
CAUSAL = "let seen: bool[4, 200, 200] = le i, j"
LATER = "let seen: bool[4, 200, 200] = ge i, j"
SHIFTED = """let o: i64[4, 200, 200] = add j, 7
  let far: bool[4, 200, 200] = gt i, o
  let seen: bool[4, 200, 200] = not far"""
WINDOW = """let o: i64[4, 200, 200] = sub j, 40
  let near: bool[4, 200, 200] = gt i, o
  let past: bool[4, 200, 200] = le i, j
  let seen: bool[4, 200, 200] = bit_and near, past"""


def loops(condition: str, least: str = "-inf", returned: str = "") -> str:
    kind, result = (", f32[4, 200, 200]", f", {returned}") if returned else ("", "")
    program = SCORES.format(condition=condition, least=least, type=kind, result=result)
    return opt(program, "--pass", "canonicalise,fuse,lower,schedule")


def bounded(text: str) -> set[str]:
    """The loops with an extent that the finiteness of the values decides: of sums, extremes and products.

    The last loop in the line of a call is the sum of its products.
    """
    binds = re.findall(r"let \[(\w+)\] = bind", text)
    text = re.sub(r"for .*, (\w+ in [^:]*): .* micro$", r"reduce sum_of \1 fused ", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if any(f"200*{name} " in line for name in binds)]
    return {word for line in lines for word in ("amax", "sum", "fused") if f" {word} " in line}


@pytest.mark.parametrize("condition", [CAUSAL, SHIFTED, WINDOW])
def test_what_is_excluded_at_the_end_of_rows_is_left_out(condition: str) -> None:
    text = loops(condition)
    assert len(re.findall("= kernel", text)) == 1
    assert bounded(text) == {"amax", "sum", "fused"}


def test_what_counts_is_not() -> None:
    """A finite minimum is the maximum of a row that has nothing else; a result has all elements."""
    assert not bounded(loops(CAUSAL, least="-3e38"))
    assert not bounded(loops(CAUSAL, returned="p"))
    assert not bounded(loops(LATER))


LATER_USES = """let a: f32[4, 200, 64] = expand m to=[0, 1]
  let b: f32[4, 200, 64] = expand z to=[0, 1]
  let s: f32[4, 200, 64] = div y, b
  let y2: f32[4, 200, 64] = sub s, a"""


def test_a_row_is_reduced_once_and_not_copied() -> None:
    """The product needs the rows, and what follows it the maximum: the same loops make and keep both."""
    program = SCORES.format(condition=CAUSAL, least="-inf", type="", result="2")
    program = program.replace("contract p,", "contract e,").replace("  ret y2", f"  {LATER_USES}\n  ret y2")
    text = opt(program, "--pass", "canonicalise,fuse,lower,schedule")
    assert len(re.findall("= kernel", text)) == 1
    assert len(re.findall("= reduce amax", text)) == 1
    assert len(re.findall("= exp ", text)) == 1
    assert not re.findall(r"f32\[200\] = buffer", text)
