"""dlc.load of files of ONNX: the package's own node tests and models, models of torch, damaged files."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

import dlc
from dlc import FileError
from dlc.files.onnx import operators
from tests.files import onnx_cases as cases
from tests.files.apart import ROOT
from tests.shards import Shard

DATA = Path(onnx.backend.test.__file__).parent / "data"
#: Forms of operators with a row that are refused.
FORMS = {"Einsum"}
LIGHT = ["resnet50", "densenet121", "inception_v1", "inception_v2", "shufflenet", "squeezenet", "vgg19",
         "zfnet512", "bvlc_alexnet"]  # fmt: skip
MODELS = sorted(glob.glob(f"{DATA}/pytorch-*/*") + glob.glob(f"{DATA}/simple/*"))


def model_of(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], **arrays: np.ndarray) -> Any:
    """A model of nodes; inputs: the shapes, float32."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    made = onnx.shape_inference.infer_shapes(made)
    for output in made.graph.output:  # the checker wants a rank
        output.type.tensor_type.shape.dim.extend([])
        output.type.tensor_type.shape.SetInParent()
    return made


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Any], str]:
    def save(model: Any) -> str:
        onnx.save(model, tmp_path / "m.onnx")
        return str(tmp_path / "m.onnx")

    return save


# -- the package's tests -------------------------------------------------------------------------------


def test_node_cases(shard: Shard) -> None:
    """None is wrong; one that does not run has a reason that is none of the table's operators."""
    known = {op for op, _ in operators()}
    names = [name for name in cases.cases() if shard.visits("onnx", name)]
    assert names
    for name in names:
        why, said = cases.run(cases.cases()[name])
        assert why != cases.WRONG, (name, said)
        assert why.removeprefix("operator ") not in known, name
        if why.startswith("a form of "):
            assert why.removeprefix("a form of ") in FORMS, (name, said)


def test_the_page_has_all_operators() -> None:
    text = cases.PAGE.read_text()
    assert cases.put(text, "operators", cases.operators_table()) == text


def arrays_in(folder: str, kind: str) -> list[Any]:
    found = []
    for k in range(len(glob.glob(f"{folder}/{kind}_*.pb"))):
        tensor = TensorProto()
        tensor.ParseFromString(Path(f"{folder}/{kind}_{k}.pb").read_bytes())
        found.append(onnx.numpy_helper.to_array(tensor))
    return found


def load_with_constants(path: str, arguments: dict[str, np.ndarray]) -> Any:
    """The model of a file, with those inputs as constants that have to be ones; they are removed."""
    constants: dict[str, Any] = {}
    while True:
        try:
            return dlc.load(path, constants=constants, tier="tcc")
        except FileError as error:
            name = cases._CONSTANT.search(str(error))
            if not name or name[1] not in arguments:
                raise
            constants[name[1]] = arguments.pop(name[1])


@pytest.mark.parametrize("folder", MODELS, ids=os.path.basename)
def test_models_of_the_package(folder: str) -> None:
    names = [value.name for value in onnx.load(f"{folder}/model.onnx").graph.input]
    for data in glob.glob(f"{folder}/test_data_set_*"):
        try:
            arguments = dict(zip(names, arrays_in(data, "input"), strict=False))
            model = load_with_constants(f"{folder}/model.onnx", arguments)
        except FileError as error:
            text = str(error)
            assert any(word in text for word in ("Sequence", "string", "training.Gradient")), text
            return
        made = model(*arguments.values())
        made = made if isinstance(made, tuple) else (made,)
        for got, wanted in zip(made, arrays_in(data, "output"), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", LIGHT)
def test_light_models_against_onnxruntime(name: str) -> None:
    import onnxruntime

    path = f"{DATA}/light/light_{name}.onnx"
    model = dlc.load(path, tier="tcc")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)
    (wanted,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(model(x), wanted, rtol=1e-3, atol=1e-5)


# -- models of torch -----------------------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.inner = nn.Linear(16, 48)
        self.outer = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.inner(self.norm(x)).chunk(3, -1)
        heads = [t.unflatten(-1, (4, 4)).transpose(1, 2) for t in (q, k, v)]
        made = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return x + self.outer(made.transpose(1, 2).flatten(2))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8)

    def forward(self, x: Tensor) -> Tensor:
        v = self.table(x)
        return torch.where(v > 0, v.cumsum(1), v.softmax(-1)).amax(1)


IMAGES = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(8, 8, 3, groups=8), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
)  # fmt: skip
DENSE = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 3), nn.LogSoftmax(-1))
WAVES = nn.Sequential(
    nn.Conv1d(2, 4, 5, stride=2), nn.SiLU(), nn.ConvTranspose1d(4, 2, 4, stride=2), nn.Tanh()
)


def floats(*sizes: int) -> Callable[[int], Tensor]:
    return lambda n: torch.randn(n, *sizes)


TORCHES: dict[str, tuple[nn.Module, Callable[[int], Tensor]]] = {
    "dense": (DENSE, floats(6)),
    "images": (IMAGES, floats(3, 12, 12)),
    "waves": (WAVES, floats(2, 21)),
    "attention": (Attention(), floats(5, 16)),
    "words": (Words(), lambda n: torch.randint(0, 11, (n, 7))),
}


@pytest.mark.parametrize("name", TORCHES)
def test_models_of_torch(name: str, tmp_path: Path) -> None:
    """Exported with a batch of any size; converted, the file gives the same bits."""
    torch.manual_seed(0)
    model, argument = TORCHES[name]
    model = model.eval()
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = torch.export.Dim("batch", min=1)
        torch.onnx.export(
            model, (argument(3),), path, dynamo=True, verbose=False, dynamic_shapes=({0: batch},)
        )
    loaded = dlc.load(path, tier="tcc")
    assert list(loaded.sizes) == ["batch"]
    loaded.save(tmp_path / "m.dlc")
    again = dlc.load(tmp_path / "m.dlc", tier="tcc", check=True)
    for n in (1, 4):
        x = argument(n)
        made = loaded(x.numpy())
        np.testing.assert_allclose(made, model(x).detach().numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(again(x.numpy()), made)


def test_no_torch_is_imported(saved: Callable[[Any], str], tmp_path: Path) -> None:
    path = saved(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", 2]}, ["y"]))
    code = f"""
import sys
import numpy as np
import dlc
m = dlc.load({path!r})
assert m(x=np.array([[-1, 2]], np.float32)).tolist() == [[0, 2]]
m.export_c({str(tmp_path / "c")!r})
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# -- what ONNX computes sizes with ---------------------------------------------------------------------


def test_shape_arithmetic_costs_nothing(saved: Callable[[Any], str]) -> None:
    """[N, 2, 6] to [N * 2, 3, 2], by Shape, Gather, Mul, Unsqueeze and Concat."""
    node = helper.make_node
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Mul", ["n", "two"], ["m"]),
        node("Unsqueeze", ["m", "axis"], ["v"]),
        node("Concat", ["v", "rest"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["y"]),
    ]
    whole = {"zero": np.array(0), "two": np.array(2), "axis": np.array([0]), "rest": np.array([3, -1])}
    model = dlc.load(saved(model_of(nodes, {"x": ["N", 2, 6]}, ["y"], **whole)))
    assert model.text.count("let ") == 1 and "reshape" in model.text
    x = np.arange(36, dtype=np.float32).reshape(3, 2, 6)
    np.testing.assert_array_equal(model(x), x.reshape(6, 3, 2))


def test_sizes_and_constants(saved: Callable[[Any], str]) -> None:
    nodes = [helper.make_node("Reshape", ["x", "to"], ["y"])]
    model = model_of(nodes, {"x": ["batch size", 4]}, ["y"])
    model.graph.input.append(helper.make_tensor_value_info("to", TensorProto.INT64, [2]))
    path = saved(onnx.shape_inference.infer_shapes(model))
    with pytest.raises(FileError, match=r"constants=\{'to': \.\.\}"):
        dlc.load(path)
    loaded = dlc.load(path, constants={"to": [-1, 2]})
    assert loaded.sizes == {"batch_size": (1, None, 1)}
    assert loaded(np.ones((3, 4), np.float32)).shape == (6, 2)
    fixed = dlc.load(path, constants={"to": [-1, 2]}, sizes={"batch size": 5})
    assert fixed.signature == "g(x: f32[5, 4]) -> f32[10, 2]"
    with pytest.raises(FileError, match="it has no size 'length', but batch size"):
        dlc.load(path, constants={"to": [-1, 2]}, sizes={"length": 5})
    with pytest.raises(FileError, match="it has no input 'shape'"):
        dlc.load(path, constants={"to": [-1, 2], "shape": 1})


@pytest.mark.parametrize(
    ("node", "weights", "why"),
    [
        (helper.make_node("Expand", ["x", "to"], ["y"]), {"to": np.array([-2, 4])}, "a negative size"),
        (helper.make_node("GatherND", ["x", "at"], ["y"]), {"at": np.full((600, 2), 9)}, "out of range"),
        (helper.make_node("Pad", ["x", "to"], ["y"], mode="m"), {"to": np.zeros(4, int)}, "its mode 'm' is"),
        (helper.make_node("Pad", ["x", "pads"], ["y"]), {"pads": np.array([0, -(2**63), 0, 0])}, "too large"),
    ],
    ids=["size", "index", "mode", "pad"],
)  # fmt: skip
def test_what_no_call_could_compute(
    node: onnx.NodeProto, weights: dict[str, np.ndarray], why: str, saved: Callable[[Any], str]
) -> None:
    with pytest.raises(FileError, match=why):
        dlc.load(saved(model_of([node], {"x": [1, 4]}, ["y"], **weights)))


def test_unique_rows_of_no_numbers(saved: Callable[[Any], str]) -> None:
    """They are all equal."""
    node = helper.make_node("Unique", ["x"], ["y", "first", "inverse", "counts"], axis=0)
    made = dlc.load(saved(model_of([node], {"x": [3, 0]}, ["y", "first", "inverse", "counts"])))(
        np.zeros((3, 0), np.float32)
    )
    assert made[0].shape == (1, 0)
    assert [part.tolist() for part in made[1:]] == [[0], [0, 0, 0], [3]]


def test_sizes_that_have_no_name(saved: Callable[[Any], str]) -> None:
    """Some write -1 for any number, and another dimension may have the name that one without gets."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["w"], ["z"])]
    model = dlc.load(saved(model_of(nodes, {"x": [-1, None], "w": ["x_0", "x_1"]}, ["y", "z"])))
    y, z = model(np.ones((2, 3), np.float32), np.ones((4, 5), np.float32))
    assert y.shape == (2, 3) and z.shape == (4, 5) and len(model.sizes) == 4


@pytest.mark.parametrize("size", [-1, 2**63, (3, 2), (-1, None), (0, 2**70)])
def test_sizes_that_no_array_has(saved: Callable[[Any], str], size: Any) -> None:
    path = saved(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N"]}, ["y"]))
    with pytest.raises(FileError, match=r"sizes: 'N' is .* comes before the most"):
        dlc.load(path, sizes={"N": size})
    for other in ("8", 2.5, (1,), None):
        with pytest.raises(TypeError, match=r"sizes: 'N' is .* a number, or a least"):
            dlc.load(path, sizes={"N": other})  # type: ignore[dict-item]
    assert dlc.load(path, sizes={"N": np.int64(3)}).signature == "g(x: f32[3]) -> f32[3]"  # type: ignore[dict-item]


def test_sizes_that_are_too_large(saved: Callable[[Any], str]) -> None:
    path = saved(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [2**62, 2**62]}, ["y"]))
    with pytest.raises(FileError, match="a size does not fit in 64 bits"):
        dlc.load(path)


def test_constants_are_not_changed(saved: Callable[[Any], str]) -> None:
    """A constant with a fraction, or of another shape, is no constant of that input."""
    model = model_of([helper.make_node("Reshape", ["x", "to"], ["y"])], {"x": [6]}, ["y"])
    model.graph.input.append(helper.make_tensor_value_info("to", TensorProto.INT64, [2]))
    model.graph.input.append(helper.make_tensor_value_info("code", TensorProto.UINT8, ["n"]))
    path = saved(model)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"to": [2.5, 3]}, "is of float64, and the input of int64"),
        ({"to": 6}, r"\(\), and the input \(2,\)"),
        ({"to": [[2, 3]]}, r"the shape \(1, 2\)"),
        ({"to": "ab"}, "is of <U2"),
        ({"to": [2, 3], "code": [256]}, "too large for uint8"),
        ({"code": [-1]}, "too large for uint8"),
    ]
    for constants, why in wrong:
        with pytest.raises(FileError, match=why):
            dlc.load(path, constants=constants)
    made = dlc.load(path, constants={"to": [2, 3], "code": [7, 255]})(np.ones(6, np.float32))
    assert made.shape == (2, 3)


def test_an_input_and_a_weight_as_outputs(saved: Callable[[Any], str]) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["w"], ["z"])]
    model = dlc.load(saved(model_of(nodes, {"x": [2]}, ["y", "z"], w=np.arange(40, dtype=np.float32))))
    x = np.array([1, 2], np.float32)
    y, z = model(x)
    assert y is x and z.tolist() == list(range(40))


def test_whole_numbers_divided_by_nothing(saved: Callable[[Any], str]) -> None:
    """Each pair of the worst numbers: no process ends."""
    for op in ("Div", "Mod"):
        infos = [helper.make_tensor_value_info(name, TensorProto.INT32, [3]) for name in "xwy"]
        graph = helper.make_graph([helper.make_node(op, ["x", "w"], ["y"])], "g", infos[:2], infos[2:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        x = np.array([-(2**31), 7, -7], np.int32)
        made = dlc.load(saved(model))(x, np.array([-1, 0, 2], np.int32))
        assert made[2] == (-3 if op == "Div" else 1) and made[0] == (x[0] if op == "Div" else 0)


# -- what is refused -----------------------------------------------------------------------------------


def test_all_unsupported_nodes_are_named_at_once(saved: Callable[[Any], str]) -> None:
    nodes = [
        helper.make_node("Multinomial", ["x"], ["a"], name="first"),
        helper.make_node("Relu", ["x"], ["b"]),
        helper.make_node("RandomNormalLike", ["b"], ["c"]),
    ]
    graph = model_of(nodes, {"x": [3, 3]}, ["c", "a"])
    with pytest.raises(FileError) as error:
        dlc.load(saved(graph))
    assert "cannot translate 2 nodes: Multinomial first of opset 20; RandomNormalLike of opset 20" in str(
        error.value
    )


def test_weights_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(16))
    (tmp_path / "models").mkdir()
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = model_of([node], {"x": [4]}, ["y"], w=np.zeros(4, np.float32))
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for name in ("../secret", str(tmp_path / "secret")):
        del weight.external_data[:]
        weight.external_data.add(key="location", value=name)
        (tmp_path / "models" / "m.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(FileError) as error:
            dlc.load(tmp_path / "models" / "m.onnx")
        assert "\n" not in str(error.value)


def test_external_weights(tmp_path: Path) -> None:
    w = np.arange(4096, dtype=np.float32)
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4096]}, ["y"], w=w)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data")
    np.testing.assert_array_equal(dlc.load(tmp_path / "m.onnx")(w), 2 * w)


MUTATE = """
import random, sys
import dlc
from dlc import FileError

data, path = open(sys.argv[1], "rb").read(), sys.argv[2]
loaded = refused = 0
for seed in range(int(sys.argv[3]), int(sys.argv[4])):
    rng, mutated = random.Random(seed), bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(mutated))
        kind = rng.randrange(4)
        if kind == 0:
            mutated[at] = rng.randrange(256)
        elif kind == 1:
            mutated[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del mutated[at : at + rng.randint(1, 8)]
        else:
            mutated[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 8)))
    open(path, "wb").write(mutated)
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
    """300 in all: an error of one line or a model, never a crash."""
    model, argument = TORCHES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), (argument(2),), tmp_path / "m.onnx", dynamo=True, verbose=False,
                          external_data=False)  # fmt: skip
    first = 100 * (shard.number % 1000)
    words = [str(tmp_path / "m.onnx"), str(tmp_path / "n.onnx"), str(first), str(first + 100)]
    done = subprocess.run([sys.executable, "-c", MUTATE, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    loaded, refused = map(int, done.stdout.split())
    assert loaded + refused == 100 and refused > 10


def test_the_command(saved: Callable[[Any], str], tmp_path: Path) -> None:
    path = saved(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", 2]}, ["y"]))
    words = [sys.executable, "-m", "dlc", "convert", path, str(tmp_path / "m.dlc"), "--size", "N=3"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "g(x: f32[3, 2]) -> f32[3, 2]\n"), done.stderr
    assert dlc.load(tmp_path / "m.dlc").signature == "g(x: f32[3, 2]) -> f32[3, 2]"
    done = subprocess.run(
        [*words[:4], str(tmp_path / "m.dlc"), str(tmp_path / "n.dlc")],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 3 and "is no file of ONNX" in done.stderr
