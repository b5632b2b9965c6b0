"""A file of ONNX that is loaded again is not translated again, and the onnx package is not imported."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import dlc
from dlc import FileError
from tests.files import apart

#: The second time in a process that has no onnx package; a call gets zeros of the shape that is given.
AGAIN = """
import json
sys.modules["onnx"] = None
import numpy as np, dlc
words = json.loads(sys.argv[1])
constants = {name: np.array(value) for name, value in words["constants"].items()} or None
sizes = {name: tuple(value) for name, value in words["sizes"].items()} or None
try:
    m = dlc.load(words["path"], tier="tcc", constants=constants, sizes=sizes)
except ImportError:
    print("translated")
else:
    made = m(np.ones(words["shape"], np.float32))
    print(json.dumps([m.signature, m.text, np.asarray(made).tobytes().hex()]))
"""


def again(path: Path, folder: Path, shape: tuple[int, ...], **more: Any) -> str:
    """What a process without the package prints, or "translated": it would need one."""
    words = {"path": str(path), "shape": shape, "constants": {}, "sizes": {}} | more
    return apart.run(AGAIN, json.dumps(words), DLC_CACHE_DIR=str(folder)).strip()


def first(path: Path, shape: tuple[int, ...], **more: Any) -> str:
    m = dlc.load(path, tier="tcc", **more)
    made = m(np.ones(shape, np.float32))
    return json.dumps([m.signature, m.text, np.asarray(made).tobytes().hex()])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    monkeypatch.setenv("DLC_CACHE_DIR", str(made))
    return made


def weights(seed: int) -> list[TensorProto]:
    rng = np.random.default_rng(seed)
    arrays = {
        "w": rng.standard_normal((5, 960), np.float32),
        "h": rng.standard_normal((960, 7)).astype(np.float16),
        "bias": rng.standard_normal(7, np.float32),
        "shape": np.array([-1, 7], np.int64),
    }
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def model(seed: int = 0, name: str = "g") -> onnx.ModelProto:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Cast", ["h"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["a", "wide"], ["b"]),
        helper.make_node("Add", ["b", "bias"], ["c"]),
        helper.make_node("Reshape", ["c", "shape"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["P", "Q"])
    graph = helper.make_graph(nodes, name, [x], [y], weights(seed))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def outside(path: Path, seed: int = 0) -> None:
    """With all weights in a file beside it, at multiples of 4096."""
    onnx.save_model(
        model(seed), path, save_as_external_data=True, location="m.bin", size_threshold=0,
        all_tensors_to_one_file=True,
    )  # fmt: skip


def test_the_second_time(tmp_path: Path, folder: Path) -> None:
    """Bits, signature and text are those of the first time, wherever weights lie in the file."""
    for k, name in enumerate(("g", "ggg", "a longer name")):
        path = tmp_path / f"{k}.onnx"
        onnx.save_model(model(k, name), path)
        assert again(path, folder, (3, 5)) == "translated"
        made = first(path, (3, 5))
        assert again(path, folder, (3, 5)) == made
        assert again(path, folder, (3, 5), sizes={"N": (2, None)}) == "translated"
        assert first(path, (3, 5), sizes={"N": (2, None)}) != made
    other = tmp_path / "elsewhere"
    other.mkdir()
    path.rename(other / "m.onnx")  # a file is known by its bytes
    assert again(other / "m.onnx", folder, (3, 5)) == made


def test_without_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_CACHE_DIR", "")
    onnx.save_model(model(), tmp_path / "m.onnx")
    assert first(tmp_path / "m.onnx", (3, 5)) == first(tmp_path / "m.onnx", (3, 5))


def test_weights_beside_it(tmp_path: Path, folder: Path) -> None:
    """Large weights are read each time; a small one that decided a shape is compared."""
    path = tmp_path / "m.onnx"
    outside(path)
    made = first(path, (3, 5))
    assert again(path, folder, (3, 5)) == made
    with open(tmp_path / "m.bin", "r+b") as file:  # w
        file.write(np.ones((5, 960), np.float32).tobytes())
    changed = again(path, folder, (3, 5))
    assert changed not in (made, "translated") and changed == first(path, (3, 5))
    found = (tmp_path / "m.bin").read_bytes().rindex(np.array([-1, 7], np.int64).tobytes())
    with open(tmp_path / "m.bin", "r+b") as file:
        file.seek(found)
        file.write(np.array([7, -1], np.int64).tobytes())
    assert again(path, folder, (3, 5)) == "translated"
    assert "f32[7, N]" in first(path, (3, 5)) and "f32[7, N]" in again(path, folder, (3, 5))


@pytest.mark.parametrize("how", ["a link", "a hard link", "a folder's link", "short", "gone", "a pipe"])
def test_a_file_beside_it_that_changed(how: str, tmp_path: Path, folder: Path) -> None:
    """The second time as the first time: nothing is read outside of the folder of the model."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "deep").mkdir()
    data, secret = inner / "deep" / "m.bin", tmp_path / "secret"
    proto = model()
    onnx.external_data_helper.convert_model_to_external_data(proto, location="deep/m.bin", size_threshold=0)
    onnx.save_model(proto, inner / "m.onnx")
    first(inner / "m.onnx", (3, 5))
    assert again(inner / "m.onnx", folder, (3, 5)) != "translated"
    secret.write_bytes(data.read_bytes())
    size = data.stat().st_size
    if how == "short":
        os.truncate(data, size // 8)
    elif how == "a folder's link":
        (inner / "deep").rename(tmp_path / "away")
        (inner / "deep").symlink_to(tmp_path / "away")
    else:
        data.unlink()
        if how == "a link":
            data.symlink_to(secret)
        elif how == "a hard link":
            data.hardlink_to(secret)
        elif how == "a pipe":
            os.mkfifo(data)
    assert again(inner / "m.onnx", folder, (3, 5)) == "translated"
    with pytest.raises(FileError):
        dlc.load(inner / "m.onnx", tier="tcc")


def test_constants(tmp_path: Path, folder: Path) -> None:
    """What is kept is of these values alone."""
    infos = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
        helper.make_tensor_value_info("shape", TensorProto.INT64, [2]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None])
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "shape"], ["y"])], "g", infos, [y])
    path = tmp_path / "m.onnx"
    onnx.save_model(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path
    )
    for shape in ([2, 3], [3, 2]):
        made = first(path, (6,), constants={"shape": shape})
        assert f"f32[{shape[0]}, {shape[1]}]" in made
        assert again(path, folder, (6,), constants={"shape": shape}) == made
    assert again(path, folder, (6,), constants={"shape": [1, 6]}) == "translated"


def test_damaged_entries(tmp_path: Path, folder: Path) -> None:
    """An entry with any byte changed is none."""
    path = tmp_path / "m.onnx"
    onnx.save_model(model(), path)
    made = first(path, (3, 5))
    for entry in folder.glob("*.so"):
        text = bytearray(entry.read_bytes())
        text[len(text) // 2] ^= 1
        entry.write_bytes(text)
    assert again(path, folder, (3, 5)) == "translated"
    assert first(path, (3, 5)) == made and again(path, folder, (3, 5)) == made
