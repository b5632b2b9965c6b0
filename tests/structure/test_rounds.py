"""Rounds of x + softmax(x / 2): what each of them adds to the loops is the same, however many came before."""

import re
from collections import Counter

import pytest

from ..dlc_opt import opt

ROUND = """
  let c{k}: f32[{all}] = mul x{k}, 0.5
  let m{k}: f32[{kept}] = amax c{k} axes=[{axis}]
  let n{k}: f32[{all}] = expand m{k} to=[{to}]
  let d{k}: f32[{all}] = sub c{k}, n{k}
  let e{k}: f32[{all}] = exp d{k}
  let s{k}: f32[{kept}] = sum e{k} axes=[{axis}]
  let r{k}: f32[{all}] = expand s{k} to=[{to}]
  let y{k}: f32[{all}] = div e{k}, r{k}
  let x{next}: f32[{all}] = add x{k}, y{k}
"""


def rounds(count: int, shape: tuple[int, int], axis: int) -> str:
    sizes = {"all": f"{shape[0]}, {shape[1]}", "kept": shape[1 - axis], "axis": axis, "to": 1 - axis}
    body = "".join(ROUND.format(k=k, next=k + 1, **sizes) for k in range(count))
    kind = f"f32[{sizes['all']}]"
    return f"dlc 1 graph\n\nfn rounds(x0: {kind}) -> ({kind}) {{{body}  ret x{count}\n}}\n"


def lets(count: int, shape: tuple[int, int], axis: int) -> Counter[str]:
    """How often each operation stands in the loops."""
    text = opt(rounds(count, shape, axis), "--pipeline", "--pass", "lower")
    return Counter(re.findall(r"let .* = (\w+)", text))


@pytest.mark.parametrize(
    ("shape", "axis"), [((256, 256), 1), ((40, 36), 1), ((256, 256), 0), ((100, 8192), 0), ((9, 36), 0)]
)
def test_rounds_add_up(shape: tuple[int, int], axis: int) -> None:
    few, some, many = (lets(count, shape, axis) for count in (8, 20, 32))
    assert some["exp"] > few["exp"] >= 8
    assert {op: many[op] - some[op] for op in many} == {op: some[op] - few[op] for op in some}
