"""A prefetched load may stand in several sums, one in the other, in the vector loop that it goes along."""

from tests.dlc_opt import opt

TEXT = """dlc 1 loops

fn f[M in 1..inf, N in 1..inf](x: f32[M, N, 12]) -> (f32[12]) {
  let y: f32[12] = kernel {
    for i in 12 vector {
      let s: f32 = reduce sum j in M {
        let t: f32 = reduce sum k in N {
          let u: f32 = reduce sum l in 2 {
            let a: f32 = load x[j, k, i] prefetch=2048
            ret a
          }
          ret u
        }
        ret t
      }
      store y[i] = s
    }
  }
  ret y
}
"""


def test_it_is_no_fault() -> None:
    assert "prefetch=2048" in opt(TEXT)
