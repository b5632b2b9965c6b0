"""Rows of a loop, sums of positions, were looked at once for each way to reach them: it took years."""

from tests.dlc_opt import opt

TIMES = 60


def test_a_sum_of_itself_again_and_again() -> None:
    sums = "".join(f"  let a{k + 1}: i64[N] = add a{k}, a{k}\n" for k in range(TIMES))
    text = f"""dlc 1 graph

fn f[N in 2..9](x: f64[N]) -> (f64[N]) {{
  let a0: i64[N] = iota axis=0
{sums}  let y: f64[N] = loop x, a{TIMES} carries=1 rows=1 steps=[N] (i: i64, c: f64[N], g: i64) {{
    let n: f64 = cast g
    let o: f64[N] = expand n to=[]
    let p: f64[N] = add c, o
    ret p
  }}
  ret y
}}
"""
    made = opt(text, "--pass", "count", "--eval", "1")
    assert "rows=0" in made or "rows" not in made
