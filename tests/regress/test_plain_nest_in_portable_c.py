"""Loops of a product that `tile` had left alone kept the marks of a plain nest when columns went inside.

The verifier refused them (V57), so that bisection ended with this rule and not with what was wrong. Where
there are never as many columns as in a panel, the loops for a whole row of one had no proof (V16).
"""

import re

import pytest

from tests.dlc_opt import opt
from tests.structure.test_product_forms import GELU


@pytest.mark.parametrize("columns", ["N in 1..32", "N in 1..30", "N in 3..3"])
def test_columns_inside_are_no_plain_nest(columns: str) -> None:
    text = GELU.format(sizes=f"T in 1..40, {columns}", m="T", n="N", k="200")
    nest = opt(text, "--pass", "lower")
    assert re.findall(r" (rows|columns) {", nest) == ["rows", "columns"]
    inside = opt(nest, "--pass", "c", "--eval", "1")
    assert "registers" in inside and not re.search(r" (rows|columns)\b", inside)


def test_columns_inside_of_a_choice_by_their_number() -> None:
    """That there are fewer than in a panel is known in the `if` alone."""
    nest = """
      for i{k} in 4 rows {{
        for j{k} in N columns {{
          let s{k}: f32 = reduce sum p{k} in N fused {{
            let x{k}: f32 = load x[i{k}, p{k}]
            let w{k}: f32 = load w[j{k}, p{k}]
            let m{k}: f32 = mul x{k}, w{k}
            ret m{k}
          }}
          store y[i{k}, j{k}] = s{k}
        }}
      }}"""
    text = f"""dlc 1 loops
fn f[N in 1..900](x: f32[4, N], w: f32[N, N]) -> (f32[4, N]) {{
  let y: f32[4, N] = kernel {{
    if N <= 15 {{{nest.format(k=0)}
    }} else {{{nest.format(k=1)}
    }}
  }}
  ret y
}}
"""
    inside = opt(text, "--pass", "c", "--eval", "1")
    assert "registers" in inside and "if 32 <= N" not in inside
