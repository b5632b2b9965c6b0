"""A size that the data had was held against its own range; what is computed of it could be below 0."""

import pytest
import torch
from torch import Tensor

import dlc
from dlc.aot_compile import Artifact
from dlc.artifact import pack


def loaded(body: str, result: str, target: str, *params: str) -> Artifact:
    """An artifact whose one call is of its first parameter."""
    lines = "".join(f"  {line}\n" for line in [*body.splitlines(), "ret r"])
    text = f"dlc 1 graph\n\nfn g[N in 0..inf]({', '.join(params)}) -> ({result}) {{\n{lines}}}\n"
    namespace, name, overload = target.split(".")
    schema = str(getattr(getattr(getattr(torch.ops, namespace), name), overload)._schema)
    call = {
        "name": target, "schema": schema, "args": [{"slot": ["a", 0]}], "kwargs": {},
        "node": "found", "source": None, "positions": [-1],
    }  # fmt: skip
    graph = {
        "text": text, "inputs": [["tensor", k] for k in range(len(params))],
        "outputs": [["tensor", 0, None]], "calls": [call], "constants": [],
    }  # fmt: skip
    header = {"dlc": dlc.__version__, "options": {"tier": "tcc"}, "graph": graph, "leaves": None}
    return Artifact.deserialize_compile_artifacts(pack(header, b""))


def ones(count: int) -> Tensor:
    return (torch.arange(9) < count).float()


FOUND = 'let [K in RANGE] i: i64[K, 1] = call x target="aten.nonzero.default" args="($0,)"\n'
CUT = """let a: i64[K - 3, 1] = slice i axis=0 start=3 step=1
let r: i64[1] = sum a axes=[0]"""
PRODUCT = """let a: f32[3, K - 3] = slice v axis=1 start=3 step=1
let b: f32[40, K - 3] = slice w axis=1 start=3 step=1
let r: f32[3, 40] = contract a, b over="nk,mk->nm\""""


def test_a_cut_of_what_is_found() -> None:
    artifact = loaded(FOUND.replace("RANGE", "0..inf") + CUT, "i64[1]", "aten.nonzero.default", "x: f32[N]")
    for count in 2, 5, 0, 3, 2:
        if count < 3:
            with pytest.raises(RuntimeError, match=f"with K = {count} a tensor has fewer than 0 elements"):
                artifact(ones(count))
        else:
            assert artifact(ones(count))[0].item() == sum(range(3, count))


def test_a_size_outside_of_its_range() -> None:
    body = FOUND.replace("RANGE", "4..8 % 2") + "let r: i64[1] = sum i axes=[0]"
    artifact = loaded(body, "i64[1]", "aten.nonzero.default", "x: f32[N]")
    for count in 4, 2, 5, 8, 9:
        if count in (4, 8):
            assert artifact(ones(count))[0].item() == sum(range(count))
        else:
            with pytest.raises(RuntimeError, match=f"the size K is {count}, which the graph excludes"):
                artifact(ones(count))


@pytest.mark.parametrize("target", ["aten.sum.default", "aten.item.default"])
def test_a_number_is_a_size(target: str) -> None:
    """It was 0 where an operator gives it as a tensor. No size is below 0, whatever the range says."""
    body = f'let [K in -9..9] n: i64 = call x target="{target}" args="($0,)"\nlet r: f32[K] = const 2.5'
    artifact = loaded(body, "f32[K]", target, "x: i64[]", "w: f32[N]")
    for number in 3, -1, 0, 9, 10:
        if 0 <= number <= 9:
            assert torch.equal(artifact(torch.tensor(number), ones(1))[0], torch.full((number,), 2.5))
        else:
            with pytest.raises(RuntimeError, match=r"K = -1 a tensor has fewer|the size K is 10"):
                artifact(torch.tensor(number), ones(1))


def test_a_product_over_what_is_found() -> None:
    params = "x: f32[N]", "v: f32[3, 40]", "w: f32[40, 40]"
    artifact = loaded(
        FOUND.replace("RANGE", "0..40") + PRODUCT, "f32[3, 40]", "aten.nonzero.default", *params
    )
    for count in 5, 2, 3:
        arguments = ones(count), torch.ones(3, 40), torch.ones(40, 40)
        if count == 2:
            with pytest.raises(RuntimeError, match="with K = 2 a tensor has fewer"):
                artifact(*arguments)
        else:
            assert torch.equal(artifact(*arguments)[0], torch.full((3, 40), count - 3.0))
