"""C of a launch whose iterations are steps named 1 where a pointer to the threads belongs.

Strict compilers refused it, and a program with threads crashed.
"""

from pathlib import Path

from dlc import ir
from tests.export.compilers import STRICT, build, passes

STEPS = """dlc 1 graph
fn steps[N](x: f32[N]) -> (f32[N]) {
  let c: f32[N] = loop x carries=1 steps=[70000] (i: i64, c: f32[N]) {
    let d: f32[N] = loop c carries=1 steps=[N - 1] (k: i64, e: f32[N]) {
      let b: i64[1] = reshape k
      let l: i64 = add k, 1
      let a: i64[1] = reshape l
      let h: f32[1] = gather e, b axis=0 wrap=1
      let g: f32[1] = mul h, 0.5
      let o: f32[N] = scatter e, a, g op=store axis=0 wrap=1
      ret o
    }
    ret d
  }
  ret c
}
"""


def test_steps(tmp_path: Path) -> None:
    ir.parse(STEPS).export_c(tmp_path, sizes={"N": 7})
    assert "the bits are the same" in passes(build(tmp_path, *STRICT, "-DCHECK_THREADS=3", "-pthread"))
