"""A product over K - 3 terms was made for K = 2: what nobody had written was its result."""

import pytest
import torch

import dlc
from dlc.aot_compile import Artifact
from dlc.artifact import pack

TEXT = """dlc 1 graph

fn g[K in 0..inf](x: f32[3, K], w: f32[40, K]) -> (f32[3, 40]) {
  let a: f32[3, K - 3] = slice x axis=1 start=3 step=1
  let b: f32[40, K - 3] = slice w axis=1 start=3 step=1
  let p: f32[3, 40] = contract a, b over="nk,mk->nm"
  ret p
}
"""


def test_sizes_below_zero() -> None:
    inputs, outputs = [["tensor", 0], ["tensor", 1]], [["tensor", 0, None]]
    graph = {"text": TEXT, "inputs": inputs, "outputs": outputs, "calls": [], "constants": []}
    header = {"dlc": dlc.__version__, "options": {"tier": "tcc"}, "graph": graph, "leaves": None}
    artifact = Artifact.deserialize_compile_artifacts(pack(header, b""))
    for k in 0, 2:
        with pytest.raises(RuntimeError, match="compiled for other arguments"):
            artifact(torch.ones(3, k), torch.ones(40, k))
    assert torch.equal(artifact(torch.ones(3, 3), torch.ones(40, 3))[0], torch.zeros(3, 40))
    assert torch.equal(artifact(torch.ones(3, 5), torch.ones(40, 5))[0], torch.full((3, 40), 2.0))
