"""Short rows that a loop splits, in place: that an iteration needs no other one was not proved for rows that
run as one (V36).
"""

from tests.dlc_opt import opt

IN_PLACE = """dlc 1 loops

fn f[S in 2..inf](y: bf16[2*S, 2, 4]) -> (bf16[2*S, 2, 4] into y) {
  let t: bf16[2*S, 2, 4] over y = kernel {
    for i in 8*S {
      for j in 2 vector {
        let a: bf16 = load y[i // 4, (i // 2) % 2, j + 2*(i % 2)]
        let b: bf16 = mul a, a
        store t[i // 4, (i // 2) % 2, j + 2*(i % 2)] = b
      }
    }
  }
  ret t
}
"""


def test_rows_that_may_need_each_other_do_not_run_as_one() -> None:
    assert "flat=" not in opt(IN_PLACE, "--pass", "flatten")
    apart = IN_PLACE.replace(" into y)", ")").replace(" over y", "")
    assert "flat=" in opt(apart, "--pass", "flatten")
