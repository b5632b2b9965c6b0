"""Kernels that are loops, down to the loops of each target: what these compute is what the program says."""

import pytest

from tests.dlc_opt import opt

#: The results of a loop over y: f32[M, 40] (carried) and w: f32[40, 40], and a step of it.
STEPS = {
    "an operation": (
        [],
        """let d: f32[M, 40] = kernel {
        let e: f32[M, 40] = sin c
        ret e
      }
      ret d""",
    ),
    "a size in a row": (
        ["i64[3]"],
        """let n: i64 = size dim=M
      let d: f32[M, 40] = kernel {
        let e: f32[M, 40] = sin c
        ret e
      }
      ret d, n""",
    ),
    "the number of the step in a row": (
        ["i64[3]"],
        """let d: f32[M, 40] = kernel {
        let e: f32[M, 40] = sin c
        ret e
      }
      ret d, i""",
    ),
    "a product": (
        [],
        """let d: f32[M, 40] = kernel {
        let e: f32[M, 40] = contract c, u over="mk,nk->mn"
        let s: f32[M, 40] = sin e
        ret s
      }
      ret d""",
    ),
}
TARGETS = ["", ",cc", ",tcc", ",c"]


def program(step: str, rows: str) -> str:
    more, body = STEPS[step]
    types = ["f32[M, 40]", *more]
    outer = ", ".join(f"y{k}: {t}" for k, t in enumerate(types))
    inner = ", ".join(f"z{k}: {t}" for k, t in enumerate(types))
    text = f"""dlc 1 kernels

fn f[M in 1..40](x: f32[M, 40], w: f32[40, 40]) -> ({", ".join(types)}) {{
  let {outer} = kernel {{
    let {inner} = loop x, w carries=1 steps=[3] (i: i64, c: f32[M, 40], u: f32[40, 40]) {{
      {body}
    }}
    ret {", ".join(f"z{k}" for k in range(len(types)))}
  }}
  ret {", ".join(f"y{k}" for k in range(len(types)))}
}}
"""
    return text if rows == "M" else text.replace("[M in 1..40]", "").replace("M", rows)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", ["M", "1", "20"])
@pytest.mark.parametrize("step", STEPS)
def test_loops(step: str, rows: str, target: str) -> None:
    """A product of any number of rows chooses its form by an if, also in a step."""
    text = program(step, rows)
    made = opt(text, "--pass", f"lower,schedule{target}")
    assert made.count(" steps {") == 1
    assert (" <= 14 {" in made) == (step == "a product" and rows == "M")
    assert opt(made) == made
    for seed in "12":
        opt(text, "--pass", f"lower,schedule{target}", "--emit", "none", "--eval", seed)
