"""Artifacts whose outputs were read where nothing had been written: the process ended."""

from typing import Any

import pytest
import torch

import dlc
from dlc.aot_compile import Artifact
from dlc.artifact import ArtifactError, pack


def loaded(text: str, outputs: list[Any], calls: list[Any]) -> Artifact:
    graph = {"text": text, "inputs": [["tensor", 0]], "outputs": outputs, "calls": calls, "constants": []}
    header = {"dlc": dlc.__version__, "options": {"tier": "tcc"}, "graph": graph, "leaves": None}
    return Artifact.deserialize_compile_artifacts(pack(header, b""))


SUM = """dlc 1 graph

fn g[N in 0..inf](x: {dtype}[N]) -> ({dtype}) {{
  let n: {dtype} = call x target="aten.sum.default" args="($0,)" site=0
  ret n
}}
"""
CALL = {
    "name": "aten.sum.default", "schema": str(torch.ops.aten.sum.default._schema),
    "args": [{"slot": ["a", 0]}], "kwargs": {}, "node": "n", "source": None, "positions": [-1],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "x", "number"),
    [("int", torch.arange(5), 10), ("bool", torch.arange(5), True), ("float", torch.ones(3).double(), 3.0)],
)
def test_a_number_that_an_operator_gives(kind: str, x: torch.Tensor, number: float) -> None:
    dtype = "f64" if kind == "float" else "i64"
    artifact = loaded(SUM.format(dtype=dtype), [[kind, 0, None]], [CALL])
    (result,) = artifact(x)
    assert result == number and type(result) is type(number)


def test_an_operator_that_gives_no_number() -> None:
    call = CALL | {
        "name": "aten.nonzero.default",
        "schema": str(torch.ops.aten.nonzero.default._schema),
    }
    artifact = loaded(SUM.format(dtype="i64").replace("sum", "nonzero"), [["int", 0, None]], [call])
    with pytest.raises(RuntimeError, match="no number"):
        artifact(torch.arange(5))


INTO = """dlc 1 graph

fn g[N in 1..inf](x: f32[N]) -> (f32[N] into x, f32[N] view of {of}) {{
  let y: f32[N] = add x, 1.0
  ret y, {value}
}}
"""


@pytest.mark.parametrize(
    ("of", "value", "outputs", "said"),
    [
        ("result 0", "y", [["tensor", 1, None]], "which goes into a parameter"),
        ("x", "x", [["tensor", 0, None]], "what goes into an input"),
    ],
)
def test_what_goes_into_an_input(of: str, value: str, outputs: list[Any], said: str) -> None:
    with pytest.raises(ArtifactError, match=said):
        loaded(INTO.format(of=of, value=value), outputs, [])
