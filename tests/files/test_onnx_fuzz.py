"""Random programs of ONNX against its reference evaluator, and files that are damaged or hostile."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import dlc
from dlc import FileError
from tests.files.apart import ROOT
from tests.files.test_onnx import TORCHES, model_of
from tests.shards import Shard

PROGRAMS, MUTATED = 100, 100


def of_torch(name: str, path: Path) -> None:
    model, argument = TORCHES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), (argument(2),), path, dynamo=True, verbose=False, external_data=False)


def run(*words: str) -> str:
    """What a process prints that ends as it should."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("part", range(3))
def test_random_programs(part: int, shard: Shard) -> None:
    """300 in all, others in each turn."""
    first = PROGRAMS * (3 * (shard.number % 10_000) + part)
    assert not run("-m", "tests.files.onnx_fuzz", str(first), str(PROGRAMS))


def test_random_programs_saved(shard: Shard) -> None:
    """100 of them, as ONNX again and run by onnxruntime."""
    first = PROGRAMS * (shard.number % 10_000)
    assert not run("-m", "tests.files.onnx_fuzz", "save", str(first), str(PROGRAMS))


# -- damaged files -------------------------------------------------------------------------------------

MUTATE = """
import random, sys
import dlc
from dlc import FileError

data, path, names = open(sys.argv[1], "rb").read(), sys.argv[2], []
loaded = refused = 0


def varint(rng):
    "A length, a number or a tag that protobuf reads: some of the largest."
    n, out = rng.choice([0, 1, 127, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]), bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


for seed in range(int(sys.argv[3]), int(sys.argv[4])):
    rng, mutated = random.Random(seed), bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, size = rng.randrange(len(mutated)), rng.randint(1, 64)
        kind = rng.randrange(8)
        if kind == 0:
            mutated[at] = rng.randrange(256)
        elif kind == 1:
            mutated[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del mutated[at : at + size]
        elif kind == 3:
            mutated[at:at] = bytes(rng.randrange(256) for _ in range(size))
        elif kind == 4:  # a piece of the file at another place
            start = rng.randrange(len(mutated))
            mutated[at : at + size] = mutated[start : start + size]
        elif kind == 5:
            mutated[at : at + 1] = varint(rng)
        elif kind == 6:  # a name of the model in place of another, which is as long
            start = mutated.find(b"val_", at)
            if start >= 0:
                mutated[start + 4 : start + 5] = bytes([rng.choice(b"0123456789")])
        else:
            del mutated[max(at, 16) :]
    open(path, "wb").write(mutated)
    print(seed, file=sys.stderr, flush=True)
    try:
        dlc.load(path, tier="tcc")
        loaded += 1
    except FileError as error:
        assert "\\n" not in str(error), error
        refused += 1
print(loaded, refused)
"""


@pytest.mark.parametrize("name", ["dense", "images", "attention"])
def test_damaged_files(name: str, tmp_path: Path, shard: Shard) -> None:
    """300 in all, others in each turn: an error of one line or a model, never a crash."""
    of_torch(name, tmp_path / "m.onnx")
    first = MUTATED * (shard.number % 10_000)
    said = run(
        "-c", MUTATE, str(tmp_path / "m.onnx"), str(tmp_path / "n.onnx"), str(first), str(first + MUTATED)
    )
    loaded, refused = map(int, said.split())
    assert loaded + refused == MUTATED and refused > 10


# -- hostile files -------------------------------------------------------------------------------------


def refused(model: Any, path: Path) -> str:
    """What dlc.load says of it, in one line."""
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    with pytest.raises(FileError) as error:
        dlc.load(path, tier="tcc")
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("text", [b"graph_name", b"node_name", b"input_name", b"axis", b"size_name", b"made"])
def test_text_that_is_no_utf8(text: bytes, tmp_path: Path) -> None:
    """protobuf gives bytes for it."""
    node = helper.make_node("Softmax", ["input_name"], ["made"], name="node_name", axis=1)
    shape = ["size_name", 3]
    graph = helper.make_graph(
        [node],
        "graph_name",
        [helper.make_tensor_value_info("input_name", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("made", TensorProto.FLOAT, shape)],
    )
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString()
    damaged = data.replace(text, b"\xff" + text[1:])
    assert damaged != data and "dlc cannot load" in refused(damaged, tmp_path / "m.onnx")


def external(**entries: Any) -> Any:
    """A model of one weight, four float32, in a file of its own."""
    model = model_of(
        [helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"], w=np.zeros(4, np.float32)
    )
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        weight.external_data.add(key=key, value=str(value))
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a model; beside it, a file that it must not read, of bytes that are no zero."""
    (tmp_path / "secret").write_bytes(b"\x01" * 4096)
    (tmp_path / "models" / "deep").mkdir(parents=True)
    (tmp_path / "models" / "w").write_bytes(b"\x02" * 16)
    return tmp_path / "models"


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "deep/../../secret",
        "./../secret",
        "deep/../../../secret",
        "link",
        "deep/link",
        "outer/secret",
        "{}/secret",
        "file://{}/secret",
        "..\\secret",
        "missing",
        "",
        "deep",
        ".",
    ],
)
def test_weights_of_other_folders(name: str, folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "secret")
    (folder / "deep" / "link").symlink_to("../../secret")
    (folder / "outer").symlink_to(folder.parent)
    refused(external(location=name.format(folder.parent)), folder / "m.onnx")


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": 16},
        {"offset": 4, "length": 16},
        {"length": 17},
        {"length": 2**63},
        {"offset": -1},
        {"offset": -(2**63)},
        {"length": -4},
        {"length": 15},
        {"offset": 2**64},
        {"offset": "1e3"},
        {"offset": ""},
        {"length": "16 "},
    ],
    ids=str,
)
def test_places_outside_of_a_file(entries: dict[str, Any], folder: Path) -> None:
    """Behind its end, before its begin, and numbers that are none."""
    model = external(location="w", **entries)
    try:
        (folder / "m.onnx").write_bytes(model.SerializeToString())
        made = dlc.load(folder / "m.onnx", tier="tcc")(np.zeros(4, np.float32))
    except FileError as error:
        assert "\n" not in str(error)
    else:  # a number that is read as the user means it
        assert entries == {"length": "16 "} and made.tobytes() == b"\x02" * 16


def test_weights_of_a_device(folder: Path) -> None:
    """Not read, or it would not end."""
    (folder / "zero").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe")
    for name in ("zero", "pipe"):
        refused(external(location=name), folder / "m.onnx")


def graph_of(nodes: list[Any], **more: Any) -> Any:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], **more)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


NODE = helper.make_node
INDICES = onnx.numpy_helper.from_array(np.array([[0]], np.int64), "i")
CYCLES: dict[str, Callable[[], Any]] = {
    "a cycle": lambda: graph_of(
        [NODE("Add", ["x", "b"], ["a"]), NODE("Neg", ["a"], ["b"]), NODE("Neg", ["b"], ["y"])]
    ),
    "itself": lambda: graph_of([NODE("Add", ["x", "y"], ["y"])]),
    "an unknown value": lambda: graph_of([NODE("Neg", ["z"], ["y"])]),
    "a name twice": lambda: graph_of([NODE("Neg", ["x"], ["y"]), NODE("Abs", ["x"], ["y"])]),
    "an input's name": lambda: graph_of([NODE("Neg", ["x"], ["x"]), NODE("Abs", ["x"], ["y"])]),
    "an output that is not made": lambda: graph_of([NODE("Neg", ["x"], ["z"])]),
    "an output twice in a node": lambda: graph_of([NODE("Split", ["x"], ["y", "y"], num_outputs=2)]),
    "no operator": lambda: graph_of([NODE("", ["x"], ["y"])]),
    "too many inputs": lambda: graph_of([NODE("Neg", ["x"] * 5, ["y"])]),
    "no inputs": lambda: graph_of([NODE("Add", [], ["y"])]),
    "weights of too few bytes": lambda: graph_of(
        [NODE("Add", ["x", "w"], ["y"])],
        initializer=[TensorProto(name="w", data_type=1, dims=[2], raw_data=b"1234")],
    ),
    "weights of a negative size": lambda: graph_of(
        [NODE("Add", ["x", "w"], ["y"])],
        initializer=[TensorProto(name="w", data_type=1, dims=[-1, -2], raw_data=b"12345678")],
    ),
    "sizes whose product overflows": lambda: graph_of(
        [NODE("Add", ["x", "w"], ["y"])],
        initializer=[TensorProto(name="w", data_type=1, dims=[2**32, 2**32], raw_data=b"")],
    ),
    "sizes whose product overflows to 8 bytes": lambda: graph_of(
        [NODE("Add", ["x", "w"], ["y"])],
        initializer=[TensorProto(name="w", data_type=1, dims=[2**62 + 1, 2], raw_data=b"12345678")],
    ),
    "an element type that is none": lambda: graph_of(
        [NODE("Add", ["x", "w"], ["y"])],
        initializer=[TensorProto(name="w", data_type=99, dims=[2], raw_data=b"12345678")],
    ),
    "an axis far away": lambda: graph_of([NODE("Softmax", ["x"], ["y"], axis=2**62)]),
    "a repetition without end": lambda: graph_of(
        [NODE("Tile", ["x", "n"], ["t"]), NODE("ReduceSum", ["t"], ["y"])],
        initializer=[onnx.numpy_helper.from_array(np.array([2**62], np.int64), "n")],
    ),
    "a number of batches below 0": lambda: graph_of(
        [NODE("GatherND", ["x", "i"], ["y"], batch_dims=-(2**31))], initializer=[INDICES]
    ),
    "a number of batches a little below 0": lambda: graph_of(
        [NODE("GatherND", ["x", "i"], ["y"], batch_dims=-3)], initializer=[INDICES]
    ),
    "indices of a size below 0": lambda: graph_of(
        [NODE("Pad", ["i", "p"], ["j"]), NODE("GatherND", ["x", "j"], ["y"])],
        initializer=[INDICES, onnx.numpy_helper.from_array(np.array([0, -2_000_000_000, 0, 0]), "p")],
    ),
    "a function of itself": lambda: functions([("f", "f")], "f"),
    "functions of each other": lambda: functions([("f", "g"), ("g", "f")], "f"),
}


def functions(pairs: list[tuple[str, str]], first: str) -> Any:
    """Each function calls another one."""
    model = graph_of([NODE(first, ["x"], ["y"], domain="own")])
    model.opset_import.append(helper.make_opsetid("own", 1))
    imports = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
    for name, called in pairs:
        domain = "own" if called != "Neg" else ""
        node = NODE(called, ["a"], ["b"], domain=domain)
        model.functions.append(helper.make_function("own", name, ["a"], ["b"], [node], imports))
    return model


@pytest.mark.parametrize("name", CYCLES)
def test_graphs_that_are_none(name: str, tmp_path: Path) -> None:
    refused(CYCLES[name](), tmp_path / "m.onnx")


def test_no_file_at_all(tmp_path: Path) -> None:
    refused(b"", tmp_path / "m.onnx")
    refused(b"\xff" * 4096, tmp_path / "m.onnx")
    refused(b"PK\x03\x04" + bytes(4096), tmp_path / "m.onnx")
    with pytest.raises(OSError):
        dlc.load(tmp_path / "none.onnx")
    with pytest.raises(OSError):
        dlc.load(tmp_path / "..")


NESTED = """
import sys
import dlc
from onnx import helper
from tests.files.test_onnx_fuzz import functions, graph_of, NODE

kind, path, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
if kind == "functions":
    model = functions([(f"f{k}", f"f{k + 1}") for k in range(n)] + [(f"f{n}", "Neg")], "f0")
elif kind == "doubled":  # 2^n nodes
    model = functions([(f"f{n}", "Neg")], "f0")
    imports = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
    for k in range(n):
        nodes = [NODE(f"f{k + 1}", ["a"], ["c"], domain="own"), NODE(f"f{k + 1}", ["c"], ["b"], domain="own")]
        model.functions.append(helper.make_function("own", f"f{k}", ["a"], ["b"], nodes, imports))
elif kind == "raw":  # deeper than protobuf makes them
    def field(number, data):
        n, out = len(data), bytearray([number << 3 | 2])
        while n > 127:
            out.append(n & 127 | 128)
            n >>= 7
        return bytes(out) + bytes([n]) + data

    data = b""
    for _ in range(n):  # a graph in an attribute in a node
        data = field(1, field(5, field(6, data)))
    open(path, "wb").write(field(7, data))
elif kind == "branches":
    def branch(node, name):
        return helper.make_graph([node], "b", [], [helper.make_tensor_value_info(name, 1, [2])])

    node = NODE("Neg", ["x"], ["y" if n == 0 else "z0"])
    for k in range(n):
        other, name = branch(NODE("Abs", ["x"], [f"e{k}"]), f"e{k}"), "y" if k == n - 1 else f"z{k + 1}"
        node = NODE("If", ["q"], [name], then_branch=branch(node, f"z{k}"), else_branch=other)
    q = helper.make_tensor("q", 9, [], [True])
    model = graph_of([node], initializer=[q])
else:  # a chain
    names = ["x", *(f"v{k}" for k in range(n - 1)), "y"]
    model = graph_of([NODE("Sigmoid", [a], [b]) for a, b in zip(names, names[1:])])
if kind != "raw":
    open(path, "wb").write(model.SerializeToString())
try:
    dlc.load(path, tier="tcc")
    print("loaded")
except dlc.FileError as error:
    assert "\\n" not in str(error)
    print("refused", error)
"""


@pytest.mark.parametrize(
    ("kind", "n"),
    [("chain", 100_000), ("functions", 100), ("functions", 5000), ("branches", 30), ("raw", 20_000)],
)
def test_large_and_deep_graphs(kind: str, n: int, tmp_path: Path) -> None:
    """A model or an error of one line; the time is that of the size, and the process does not end."""
    assert run("-c", NESTED, kind, str(tmp_path / "m.onnx"), str(n)).startswith(("loaded", "refused"))
