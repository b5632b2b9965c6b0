"""The scratch of all threads had more than 2**64 bytes together: rows were written where there was none."""

import pytest
import torch

import dlc
from dlc.aot_compile import Artifact
from dlc.artifact import pack

TEXT = """dlc 1 graph

fn g[N in 2..64](x: f32[N]) -> (f32[N]) {
  let i: i64[N, 36028797018963968*N] = iota axis=1
  let c: f32[N, 36028797018963968*N] = cast i
  let e: f32[N, 36028797018963968*N] = expand x to=[0]
  let h: f32[N, 36028797018963968*N] = mul e, c
  let p: f32[N, 36028797018963968*N] = exp h
  let m: f32[N] = sum p axes=[1]
  let b: f32[N, 36028797018963968*N] = expand m to=[0]
  let d: f32[N, 36028797018963968*N] = sub p, b
  let q: f32[N, 36028797018963968*N] = exp d
  let s: f32[N] = sum q axes=[1]
  ret s
}
"""


def test_scratch_of_threads() -> None:
    rows = {"inputs": [["tensor", 0]], "outputs": [["tensor", 0, None]], "calls": [], "constants": []}
    header = {
        "dlc": dlc.__version__,
        "options": {"tier": "tcc"},
        "graph": {"text": TEXT} | rows,
        "leaves": None,
    }
    artifact = Artifact.deserialize_compile_artifacts(pack(header, b""))
    threads = torch.get_num_threads()
    torch.set_num_threads(64)
    try:
        with pytest.raises(RuntimeError, match="a size outside of its range"):  # its work would take years
            artifact(torch.ones(2))
    finally:
        torch.set_num_threads(threads)
