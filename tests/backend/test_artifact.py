"""The bytes of an artifact: what is refused, and that nothing in them runs but what the compiler makes."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import dlc
from dlc import ArtifactError, operators, trace
from dlc.aot_compile import Artifact
from dlc.artifact import Packed, compile_packed, pack, unpack
from dlc.options import parse
from tests.shards import Shard

from . import damage

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = [float(k) for k in range(40)]  # too many to be written in the program


def function(x: Tensor, y: Tensor) -> Any:
    return torch.sort(x * 2, 0)[0], x.sum() + torch.tensor(NUMBERS), x @ y.t()


@pytest.fixture(scope="module")
def saved() -> bytes:
    x = torch.randn(5, 3)
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        compiled = torch.compile(function, fullgraph=True, backend="dlc", options={"tier": "tcc"})
        artifact = compiled.aot_compile(((x, torch.randn(2, 3)), {}))._artifacts.compiled_fn
    assert isinstance(artifact, Artifact)
    return Artifact.serialize_compile_artifacts(artifact)


def load(data: bytes) -> Artifact:
    return Artifact.deserialize_compile_artifacts(data)


def test_the_bytes_are_text_and_the_constants(saved: bytes) -> None:
    first, digest, header, constants = saved.split(b"\n", 3)
    assert first == b"dlc artifact 1"
    assert len(digest) == 64
    assert json.loads(header)["graph"]["text"].startswith("dlc 1 graph")
    assert constants == torch.tensor(NUMBERS).numpy().tobytes()


def test_saving_what_was_loaded_gives_the_same_bytes(saved: bytes) -> None:
    assert Artifact.serialize_compile_artifacts(load(saved)) == saved


def test_every_damaged_byte_is_found(saved: bytes) -> None:
    for at in range(0, len(saved), 7):
        damaged = bytearray(saved)
        damaged[at] ^= 1
        with pytest.raises(ArtifactError):
            load(bytes(damaged))
    for length in (0, 5, 20, len(saved) // 2, len(saved) - 1):
        with pytest.raises(ArtifactError):
            load(saved[:length])


def test_damaged_newer_and_other_bytes_are_told_apart(saved: bytes) -> None:
    with pytest.raises(ArtifactError, match="damaged: its SHA-256"):
        load(saved + b"x")
    with pytest.raises(
        ArtifactError, match="made by a newer dlc: its format is 2, and this dlc reads up to 1"
    ):
        load(saved.replace(b"dlc artifact 1", b"dlc artifact 2"))
    with pytest.raises(ArtifactError, match="no artifact"):
        load(b"\x80\x04 a pickle")


# Changes to a header whose hash is right again: each is found by what is checked on loading.


def calls(graph: dict[str, Any], name: str) -> dict[str, Any]:
    return next(call for call in graph["calls"] if call["name"] == name)


def _drop_input(g: dict[str, Any]) -> None:
    g["inputs"].pop()


def _give_twice(g: dict[str, Any]) -> None:
    tensors = [row for row in g["inputs"] if row[0] == "tensor"]
    tensors[1][1] = tensors[0][1]


def _no_such_size(g: dict[str, Any]) -> None:
    next(row for row in g["inputs"] if row[0] == "size")[1] = 9


def _tensor_as_number(g: dict[str, Any]) -> None:
    next(row for row in g["inputs"] if row[0] == "tensor")[0] = "scalar"


def _no_such_output(g: dict[str, Any]) -> None:
    g["outputs"][0][1] = 77


def _output_as_number(g: dict[str, Any]) -> None:
    g["outputs"][0][0] = "int"


def _other_kind(g: dict[str, Any]) -> None:
    g["outputs"][0][0] = "code"


def _no_such_slot(g: dict[str, Any]) -> None:
    calls(g, "aten.sort.default")["args"][0] = {"slot": ["a", 5]}


def _no_such_size_slot(g: dict[str, Any]) -> None:
    calls(g, "aten.sort.default")["args"][0] = {"slot": ["d", 0]}


def _tensor_as_float(g: dict[str, Any]) -> None:
    calls(g, "aten.sort.default")["args"][0] = {"slot": ["f", 0]}


def _negative_slot(g: dict[str, Any]) -> None:
    calls(g, "aten.sort.default")["args"][0] = {"slot": ["a", -1]}


def _fewer_results(g: dict[str, Any]) -> None:
    calls(g, "aten.sort.default")["positions"] = [0]


def _other_operator(g: dict[str, Any]) -> None:
    schema = str(torch.ops.aten.cumsum.default._schema)
    calls(g, "aten.sort.default").update(name="aten.cumsum.default", schema=schema)


def _no_calls(g: dict[str, Any]) -> None:
    g["calls"] = []


def _no_constant(g: dict[str, Any]) -> None:
    g["constants"] = []


def _large_constant(g: dict[str, Any]) -> None:
    g["constants"][0].update(sizes=[1000], bytes=4000)


def _negative_stride(g: dict[str, Any]) -> None:
    g["constants"][0].update(sizes=[3], strides=[-1], bytes=-4)


def _other_dtype(g: dict[str, Any]) -> None:
    g["constants"][0]["dtype"] = "load"


def _unknown_operation(g: dict[str, Any]) -> None:
    g["text"] = g["text"].replace("= mul ", "= execute ")


def _broken_rule(g: dict[str, Any]) -> None:
    g["text"] = g["text"].replace("f32[2, 3]", "f32[2, 4]")


def _other_stage(g: dict[str, Any]) -> None:
    g["text"] = "dlc 1 loops\n\nfn f(x: f32) -> (f32) {\n  ret x\n}\n"


def _without_text(g: dict[str, Any]) -> None:
    del g["text"]


CHANGES = [value for name, value in list(globals().items()) if name.startswith("_") and callable(value)]


# What would do more than compute.


def test_each_stage_is_verified_whatever_the_file_says() -> None:
    from dlc.artifact import _options

    for given in {}, {"verify": False}:
        assert _options(given).verify


def load_with(saved: bytes, **changes: Any) -> Artifact:
    header, constants = unpack(saved)
    return load(pack(header | changes, bytes(constants)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cc", "/bin/sh -c false"),
        ("cache", "/tmp/theirs"),
        ("dump", "all"),
        ("freeze", True),
        ("speed", 1),
        ("cache", 1),
    ],
)
def test_a_file_chooses_no_program_and_no_folder(saved: bytes, name: str, value: Any) -> None:
    with pytest.raises(ArtifactError, match=f"it sets the option '{name}'"):
        load_with(saved, options={name: value})


@pytest.mark.parametrize(
    "leaves",
    [
        [["result", 3]],
        [["result", -1]],
        [["argument", 5]],
        [["object", {}]],
        [["code", 0]],
        [["result", True]],
    ],
)
def test_what_is_returned_is_there(saved: bytes, leaves: Any) -> None:
    with pytest.raises(ArtifactError, match="it returns what is not there"):
        load_with(saved, leaves=leaves)


def test_no_other_device_is_started_and_no_memory_pinned(saved: bytes) -> None:
    header, constants = unpack(saved)
    call = calls(header["graph"], "aten.sort.default")
    call["args"] = [{"slot": ["a", 0]}, {"device": "cuda:0"}]
    with pytest.raises(ArtifactError, match="it names the device 'cuda:0'"):
        load(pack(header, bytes(constants)))
    schema = str(torch.ops.aten.empty_like.default._schema)
    call |= {"name": "aten.empty_like.default", "schema": schema, "args": [{"slot": ["a", 0]}]}
    call["kwargs"] = {"pin_memory": True}
    with pytest.raises(ArtifactError, match=r"it calls aten.empty_like.default with pin_memory"):
        load(pack(header, bytes(constants)))


@pytest.mark.parametrize(
    "content",
    ["[1", "[" * 100_000 + "]" * 100_000, "[1]", '"x"', "null", "1e999", "{}"],
    ids=lambda text: text[:2],
)
def test_a_header_that_is_none(content: str) -> None:
    body = content.encode() + b"\n"
    data = b"dlc artifact 1\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    with pytest.raises(ArtifactError):
        load(data)


@pytest.mark.in_turn(3)
def test_random_damage(shard: Shard) -> None:
    """DLC_DAMAGE=count,seed tries others than those of the commit."""
    asked = os.environ.get("DLC_DAMAGE", f"600,{shard.number}")
    line = [sys.executable, "-P", "-m", "tests.backend.damage", *asked.split(",")]
    places = f"{Path(dlc.__file__).parents[1]}:{ROOT}"  # of the package that is tested
    env = {**os.environ, "PYTHONPATH": places}
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env=env, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "refused" in done.stdout and "agreed" in done.stdout


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_does_not_fit_the_program_is_refused(change: Callable[..., None], saved: bytes) -> None:
    header, constants = unpack(saved)
    graph = copy.deepcopy(header["graph"])
    change(graph)
    assert graph != header["graph"]
    with pytest.raises(ArtifactError, match="the artifact cannot be loaded"):
        load(pack(header | {"graph": graph}, bytes(constants)))


def renamed(saved: bytes, name: str, schema: str) -> bytes:
    header, constants = unpack(saved)
    text = json.dumps(header["graph"]).replace("aten.sort.default", name)
    header["graph"] = json.loads(text)
    calls(header["graph"], name)["schema"] = schema
    return pack(header, bytes(constants))


def test_operators_are_looked_up_and_held_to_their_schema(saved: bytes) -> None:
    with pytest.raises(ArtifactError, match=r"calls elsewhere\.sort\.default, which is not among"):
        load(renamed(saved, "elsewhere.sort.default", ""))
    with pytest.raises(ArtifactError, match="another operator here"):
        load(renamed(saved, "aten.sort.default", "aten::sort(Tensor self) -> Tensor"))
    for name in ("aten.sort", "_dir.__class__", "load_library", "aten.sort.default.default"):
        with pytest.raises(ArtifactError, match=f"it calls {name}, which is not among"):
            load(renamed(saved, name, ""))
    with pytest.raises(ArtifactError, match=r"it calls aten.sin_.default, which is not among"):
        load(renamed(saved, "aten.sin_.default", str(torch.ops.aten.sin_.default._schema)))


def calls_twice(x: Tensor) -> Tensor:
    return torch.ops.dlc_test_artifact.twice(x) + 1


def test_an_operator_of_the_user_s_must_be_allowed_and_registered_and_is_then_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "_allowed", set())

    @torch.library.custom_op("dlc_test_artifact::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    with torch.no_grad():
        compiled = torch.compile(calls_twice, fullgraph=True, backend="dlc")
        with pytest.raises(
            ArtifactError, match=r"it calls dlc_test_artifact.twice.default, .*allow_operators"
        ):
            compiled.aot_compile(((torch.ones(3),), {}))
        dlc.allow_operators("dlc_test_artifact::twice")
        artifact = compiled.aot_compile(((torch.ones(3),), {}))._artifacts.compiled_fn
    data = Artifact.serialize_compile_artifacts(artifact)
    assert torch.equal(load(data)(torch.ones(3))[0], torch.full((3,), 3.0))
    header, constants = unpack(data)
    text = json.dumps(header).replace("dlc_test_artifact", "dlc_test_elsewhere")
    with pytest.raises(ArtifactError, match="which is not among"):
        load(pack(json.loads(text), bytes(constants)))
    dlc.allow_operators("dlc_test_elsewhere::twice.default")
    with pytest.raises(ArtifactError, match="not registered in this process: import what defines it"):
        load(pack(json.loads(text), bytes(constants)))
    operators._allowed.clear()
    with pytest.raises(ArtifactError, match="which is not among"):
        load(data)
    dlc.allow_operators(torch.ops.dlc_test_artifact.twice)
    load(data)


@pytest.mark.parametrize("name", ["twice", "a.b.c.d", "a..b", ""])
def test_what_is_no_operator_s_name_is_not_allowed(name: str) -> None:
    with pytest.raises(ValueError, match="is no operator's name"):
        dlc.allow_operators(name)


@pytest.mark.parametrize(
    "constant",
    [
        torch.arange(6.0).reshape(2, 3).t(),
        torch.ones(3, 1).expand(3, 2),
        torch.randn(12)[1:7].reshape(3, 2),
        torch.zeros(3, 0),
        torch.tensor(float("nan")).expand(3, 2),
        torch.ones(3, 2, dtype=torch.bfloat16),
        torch.ones(3, 2, dtype=torch.bool),
        torch.ones(3, 2, dtype=torch.complex64),
    ],
    ids=["transposed", "expanded", "offset", "empty", "nan", "bfloat16", "bool", "complex"],
)
def test_constants(constant: Tensor) -> None:
    captured = trace.capture(lambda x: constant * x, (torch.ones(()),), ("x",), static=False, floats=True)
    packed = compile_packed(captured.graph, {}, parse({"tier": "tcc"}))
    again = Packed.from_bytes(packed.to_bytes())
    (want,) = packed.callable(torch.ones(()))
    (have,) = again.callable(torch.ones(()))
    torch.testing.assert_close(have, want, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(have, constant * torch.ones(()), rtol=0, atol=0, equal_nan=True)


def test_what_has_no_form_in_a_file_is_named() -> None:
    def f(x: Tensor) -> Tensor:
        def yes(y: Tensor) -> Tensor:  # a call in it wants y as it lies in eager, so the cond is one, too
            return torch.linalg.matrix_exp(y.contiguous())

        return torch.cond(x.sum() > 0, yes, lambda y: y.contiguous() + 1, (x.t(),))

    with torch.no_grad(), pytest.raises(dlc.ArtifactError, match="it calls cond, which is no operator"):
        torch.compile(f, fullgraph=True, backend="dlc").aot_compile(((torch.ones(3, 3),), {}))


@pytest.mark.refused_inside
def test_a_result_whose_elements_share_memory_is_not_computed() -> None:
    """Its elements would be what is written last, by whichever thread."""
    header, constants = unpack(damage.saved(damage.second))
    text = header["graph"]["text"]
    assert text.count("strides=[1, 3]") == 1
    shapes = iter(((4, 3), (2, 3)))
    arguments = [
        torch.randn(next(shapes)) if kind == "tensor" else 4 for kind, _ in header["graph"]["inputs"]
    ]
    load(pack(header, bytes(constants)))(*arguments)
    header["graph"]["text"] = text.replace("strides=[1, 3]", "strides=[3, 3]")
    with pytest.raises(RuntimeError, match="compiled for other arguments"):
        load(pack(header, bytes(constants)))(*arguments)
