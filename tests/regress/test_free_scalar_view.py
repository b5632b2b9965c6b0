"""An expand of a scalar that is cheap as a scalar, but not as a tensor, ended the fuse pass in a crash."""

import numpy as np

import dlc

TEXT = """dlc 1 graph

fn graph[N](x: f32[N]) -> (f32[N]) {
  let n: i64 = size dim=N
  let a: f64 = cast n
  let b: f64 = div a, 3.0
  let c: f64 = mul b, 0.7
  let d: f32 = cast c
  let e: f32[N] = expand d to=[]
  let y: f32[N] = add x, e
  ret y
}
"""


def test_expand_of_a_scalar() -> None:
    graph = dlc.ir.parse(TEXT)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(graph.run_pass("fuse")(x), graph(x))
