"""Forms of ONNX operators that its tests lack: ends of integers, sizes of 0, counts that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper

from dlc import FileError
from dlc.files.model import Model
from dlc.files.onnx import translated

MOST, LEAST = 2**63 - 1, -(2**63)
X = np.arange(60, dtype=np.float32).reshape(3, 5, 4)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def model_of(op: str, x: np.ndarray, constants: list[Any], outputs: int = 1, empty: bool = False,
             **attributes: Any) -> Model:  # fmt: skip
    """One node of x and of constants; empty: each size of x is any from 0 on."""
    names = ["x"] + ["" if c is None else f"c{k}" for k, c in enumerate(constants)]
    made = [f"y{k}" for k in range(outputs)]
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    shape = [f"n{ax}" for ax in range(x.ndim)] if empty else x.shape
    graph = helper.make_graph(
        [helper.make_node(op, names, made, **attributes)],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_empty_tensor_value_info(name) for name in made],
        [
            onnx.numpy_helper.from_array(np.asarray(c), name)
            for c, name in zip(constants, names[1:], strict=True)
            if name
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return translated(model, ".", {}, {f"n{ax}": (0, None) for ax in range(x.ndim)} if empty else {}, "tcc")


@pytest.mark.parametrize("bound", [MOST, LEAST, 2**60 + 1])
def test_integers_of_64_bits_are_exact(bound: int) -> None:
    """None goes through a float64: a greatest bound would become the least one."""
    x = ints(1, 2, -5)
    np.testing.assert_array_equal(model_of("Clip", x, [None, np.array(bound)])(x), np.minimum(x, bound))
    np.testing.assert_array_equal(model_of("Clip", x, [np.array(bound)])(x), np.maximum(x, bound))
    wanted = ints(bound, 1, 2, -5, bound, bound)
    np.testing.assert_array_equal(model_of("Pad", x, [ints(1, 2), np.array(bound)])(x), wanted)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize(("start", "end", "step"), [(0, MOST, MOST), (MOST, LEAST, -MOST), (1, 9, LEAST),
                                                    (3, LEAST, LEAST), (1, MOST, 2**32)])  # fmt: skip
def test_slices_with_a_step_beyond_the_axis(start: int, end: int, step: int, empty: bool) -> None:
    model = model_of("Slice", X, [ints(start), ints(end), ints(1), ints(step)], empty=empty)
    for x in [X, X[:, :1], X[:, :0]] if empty else [X]:
        np.testing.assert_array_equal(model(x), x[:, start:end:step])


@pytest.mark.parametrize("batch", [0, 1, 2])
def test_gather_nd_of_all_axes(batch: int) -> None:
    """As many indices as the axes behind the batches."""
    index = np.random.default_rng(0).integers(-3, 3, (3, 5, 2, 3 - batch))
    x = np.arange(27 if batch == 0 else 45 if batch == 1 else 60, dtype=np.float32)
    x = x.reshape([(3, 3, 3), (3, 5, 3), (3, 5, 4)][batch])
    made = model_of("GatherND", x, [index], batch_dims=batch)(x)
    for at in np.ndindex(*index.shape[:-1]):
        assert made[at] == x[(*at[:batch], *index[at])]
    with pytest.raises(FileError, match="axis 0, a batch"):
        model_of("GatherND", x, [index[:2]], batch_dims=max(batch, 1))


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("empty", [False, True])
def test_exclusive_sums_of_nothing(reverse: int, empty: bool) -> None:
    for x in (X, X[:, :1], X[:, :0]):
        made = model_of("CumSum", x, [np.array(1)], empty=empty, exclusive=1, reverse=reverse)(x)
        whole = (x[:, ::-1].cumsum(1) - x[:, ::-1])[:, ::-1] if reverse else x.cumsum(1) - x
        np.testing.assert_array_equal(made, whole)


def test_a_cast_that_wraps_decides_no_size() -> None:
    """260 as a number of 8 bits is 4, in a call as where it is looked at before."""
    x = ints(1)
    node = helper.make_node
    nodes = [
        node("Cast", ["c"], ["narrow"], to=TensorProto.UINT8),
        node("Cast", ["narrow"], ["wide"], to=TensorProto.INT64),
        node("Expand", ["x", "wide"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, ["n"])],
        [onnx.numpy_helper.from_array(ints(260), "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    try:
        assert translated(model, ".", {}, {}, "tcc")(x).shape == (4,)
    except FileError as error:
        assert "decide a size" in str(error)


REFUSED: dict[str, tuple[str, np.ndarray, list[Any], dict[str, Any], str]] = {
    "no depth": ("OneHot", ints(0), [ints(), ints(5, 7)], {}, "0 elements instead of one"),
    "no diagonal": ("Trilu", X, [ints()], {}, "0 elements instead of one"),
    "no axis": ("CumSum", X, [ints()], {}, "0 elements instead of one"),
    "negative sizes": ("Reshape", X, [ints(-6, -10)], {}, "less than -1"),
    "negative repeats": ("Tile", X, [ints(1, -2, 1)], {}, "a negative number of times"),
    "negative parts": ("Split", X, [], {"axis": 1, "num_outputs": 4, "outputs": 4}, "a negative size"),
    "too few sizes": ("ConvTranspose", X[None], [np.ones((3, 2, 2, 2), np.float32)], {"output_shape": [6]},
                      "fewer than 2 numbers"),
    "two dots": ("Einsum", X, [], {"equation": "...->.."}, "a dot that is none of an ellipsis"),
    "many axes": ("Einsum", np.ones([1] * 9, np.float32), [], {"equation": "...->......"},
                  "more than 16 axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name: str) -> None:
    """With a sentence, when it is loaded: none is read beyond its end."""
    op, x, constants, attributes, why = REFUSED[name]
    with pytest.raises(FileError, match=why):
        model_of(op, x, constants, **attributes)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_images_between_convolutions_have_their_channels_innermost(count: int) -> None:
    """As in torch's graphs: a single convolution would only be given another order to undo."""
    rng = np.random.default_rng(count)
    x = rng.standard_normal((2, 3, 9, 8), np.float32)
    widths = (3, 7, 40, 5)
    shapes = [(widths[k + 1], widths[k], 3, 3) for k in range(count)]
    weights = [rng.standard_normal(shape, np.float32) / np.float32(3 * shape[1] ** 0.5) for shape in shapes]
    nodes, last = [], "x"
    for k in range(count):
        nodes.append(helper.make_node("Conv", [last, f"w{k}"], [f"c{k}"], pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        nodes.append(helper.make_node("Concat", [f"r{k}", f"c{k}"], [f"b{k}"], axis=1))
        nodes.append(helper.make_node("MaxPool", [f"r{k}"], [f"y{k}"], kernel_shape=[2, 2], strides=[1, 1]))
        last = f"y{k}"
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in (last, "b0")],
        [onnx.numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(weights)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    made = translated(model, ".", {}, {}, "tcc")
    assert made.text.count("->mpqn") == (count if count > 1 else 0)
    assert made.text.count("contract ") == count
    wanted = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    for one, two in zip(made(x), wanted, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


def test_products_with_a_constant_need_no_weights() -> None:
    """Their columns are prepared where the model has no array at all."""
    node = helper.make_node
    value = onnx.numpy_helper.from_array(np.array([0.5], np.float32))
    graph = helper.make_graph(
        [node("ConstantOfShape", ["s"], ["w"], value=value), node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, 5))],
        [helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(ints(5, 40), "s")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    made = translated(model, ".", {}, {}, "tcc")
    assert not made.weights
    np.testing.assert_array_equal(made(x), np.repeat(0.5 * x.sum(1, keepdims=True), 40, 1))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_a_ratio_of_an_image_without_elements(policy: str) -> None:
    sizes = {"axes": [1, 2], "keep_aspect_ratio_policy": policy}
    kept = model_of("Resize", X, [None, None, ints(10, 8)], **sizes)
    assert kept(X).shape == (3, 10, 8)
    wrong = [(X[:, :0], ints(10, 8)), (X, ints(-10, 8))]
    wrong += [(X, ints(2**61, 8))] if policy == "not_smaller" else []
    for x, wanted in wrong:
        with pytest.raises(FileError):
            model_of("Resize", x, [None, None, wanted], **sizes)
