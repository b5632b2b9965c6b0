"""A rewrite selects calls of microkernels: lowering writes a product as loops, right as they are."""

import subprocess
from pathlib import Path

import pytest

from tests.dlc_opt import opt
from tests.structure.test_product_forms import GELU

BUILD = Path(__file__).parents[2] / "build"
ANY = GELU.format(sizes="M, N, K in 1..inf", m="M", n="N", k="K")

#: Sums of products in plain loops: of computed columns, of integers backwards, and with a constant.
SUMS = """dlc 1 loops

fn f[M, N, K](x: f32[M, K], w: i8[N, K], s: f32[N], i: i8[M, K], d: f64[K, N]) ->
    (f32[M, N], i32[M, N], f64[M, N]) {
  let y: f32[M, N], z: i32[M, N], v: f64[M, N] = kernel {
    for i0 in M parallel {
      for j0 in N {
        let t: f32 = reduce sum p in K fused {
          let a: f32 = load x[i0, p]
          let b: i8 = load w[j0, p]
          let c: f32 = load s[j0]
          let e: f32 = cast b
          let g: f32 = mul e, c
          let q: f32 = mul a, g
          ret q
        }
        store y[i0, j0] = t
        let u: i32 = reduce sum p1 in K fused {
          let a1: i8 = load i[i0, K - p1 - 1]
          let b1: i8 = load w[j0, p1]
          let c1: i32 = cast a1
          let e1: i32 = cast b1
          let q1: i32 = mul c1, e1
          ret q1
        }
        store z[i0, j0] = u
        let o: f64 = reduce sum p2 in K fused {
          let a2: f64 = load d[p2, j0]
          let q2: f64 = mul a2, 0.1
          ret q2
        }
        store v[i0, j0] = o
      }
    }
  }
  ret y, z, v
}
"""


def calls(text: str) -> tuple[int, int]:
    lines = [line for line in text.splitlines() if " for " in f" {line}"]
    return sum(" micro" in line for line in lines), sum(" pack" in line for line in lines)


def test_lowering_writes_loops_and_a_rewrite_selects_the_calls() -> None:
    plain = opt(ANY, "--pass", "lower")
    assert calls(plain) == (0, 0)
    selected = opt(plain, "--pass", "micro")
    assert calls(selected) == (4, 3)
    assert calls(opt(ANY, "--pass", "lower,schedule")) == (4, 3)
    words = str.maketrans("", "", " ")
    bare = selected.replace(" micro {", " {").replace(" pack {", " {")
    assert bare.translate(words) == plain.translate(words), "nothing but marks"


def test_each_call_is_a_rewrite() -> None:
    """A panel is packed by a call only where a call reads it: with fuel for the four products, none is."""
    plain = opt(ANY, "--pass", "lower")
    made = [calls(opt(plain, "--pass", "micro", "--fuel", str(fuel))) for fuel in range(9)]
    assert made == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (4, 1), (4, 2), (4, 3), (4, 3)]


def test_loops_around_a_product_are_no_vectors() -> None:
    """The order of its sum is part of the program: no element of a vector has such a sum."""
    plain = opt(ANY, "--pass", "lower")
    for target in ("cc", "tcc", "c"):
        text = opt(opt(plain, "--pass", "vectorise"), "--pass", f"parallelise,{target}")
        lines = text.splitlines()
        sums = [k for k, line in enumerate(lines) if " fused {" in line]
        assert len(sums) == 4
        assert not any(" vector" in lines[k - 1] for k in sums)


@pytest.mark.parametrize("sizes", ["M=3 N=5 K=700", "M=1 N=2 K=0", "M=2 N=3 K=256", "M=2 N=2 K=2049"])
def test_sums_in_plain_loops(tmp_path: Path, sizes: str) -> None:
    """They have the interpreter's value, and on all targets the same bits."""
    file = tmp_path / "sums.dlc"
    file.write_text(SUMS)
    done = subprocess.run([BUILD / "test-emit", file, *sizes.split()], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_sum_has_the_bits_of_a_call(tmp_path: Path) -> None:
    """The same loops with and without a call, evaluated by the interpreter and run by each target."""
    file = tmp_path / "plain.dlc"
    for passes in ("lower", "lower,micro"):
        text = opt(GELU.format(sizes="N in 1..40", m="9", n="N", k="300"), "--pass", passes)
        file.write_text(opt(text, "--pass", "vectorise,parallelise"))
        done = subprocess.run([BUILD / "test-emit", file, "N=37"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
