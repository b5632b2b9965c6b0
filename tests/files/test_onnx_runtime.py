"""Operators of com.microsoft, which onnxruntime's optimiser writes: each against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from dlc import FileError
from dlc.files.model import Model
from dlc.files.onnx import translated

Arrays = dict[str, np.ndarray]
RNG = np.random.default_rng(0)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def model_of(op: str, inputs: Arrays, outputs: int, weights: tuple[str, ...] = (), free: bool = False,
             **attributes: Any) -> onnx.ModelProto:  # fmt: skip
    """One node; an input named "-.." is left out; free: each first axis of an input is any size."""
    given = {name: array for name, array in inputs.items() if not name.startswith("-")}
    names = ["" if name.startswith("-") else name for name in inputs]
    made = [f"y{k}" for k in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op, names, made, domain="com.microsoft", **attributes)],
        "g",
        [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(array.dtype),
                ["batch", *array.shape[1:]] if free and array.ndim > 1 else array.shape,
            )
            for name, array in given.items()
            if name not in weights
        ],
        [helper.make_empty_tensor_value_info(name) for name in made],
        [onnx.numpy_helper.from_array(given[name], name) for name in weights],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(op: str, inputs: Arrays, outputs: int = 1, weights: tuple[str, ...] = (), free: bool = False,
          tolerance: float = 2e-5, **attributes: Any) -> Model:  # fmt: skip
    model = model_of(op, inputs, outputs, weights, free, **attributes)
    arguments = {k: a for k, a in inputs.items() if not k.startswith("-") and k not in weights}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, arguments)
    loaded = translated(model, ".", {}, {}, "tcc")
    made = loaded(**arguments)
    for got, want in zip(made if outputs > 1 else (made,), wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, (got.shape, want.shape)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return loaded


@pytest.mark.parametrize("op", ["Gelu", "BiasGelu", "FastGelu", "QuickGelu"])
@pytest.mark.parametrize("free", [False, True])
def test_activations(op: str, free: bool) -> None:
    inputs = {"x": f32(3, 5, 7) * 2}
    if op == "BiasGelu":
        inputs["bias"] = f32(7)
    check(op, inputs, free=free)
    if op == "FastGelu":
        check(op, {**inputs, "bias": f32(7)}, free=free)
    if op == "QuickGelu":
        check(op, inputs, free=free, alpha=0.7)


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_fused_matmul(trans_a: int, trans_b: int, batch: tuple[int, ...]) -> None:
    a = f32(*batch, *((4, 5) if trans_a else (5, 4)))
    b = f32(*batch, *((6, 4) if trans_b else (4, 6)))
    check("FusedMatMul", {"a": a, "b": b}, transA=trans_a, transB=trans_b, alpha=0.5)


@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
@pytest.mark.parametrize("bias", [False, True])
def test_skip_norm(skip: tuple[int, ...], bias: bool) -> None:
    inputs = {"x": f32(2, 3, 8), "skip": f32(*skip), "scale": f32(8), "beta": f32(8)}
    if bias:
        inputs["bias"] = f32(8)
    # the second and third result of onnxruntime's kernel for processors are not written
    check("SkipLayerNormalization", inputs, weights=("scale", "beta"), epsilon=1e-5)
    del inputs["beta"]
    check("SkipSimplifiedLayerNormalization", inputs, weights=("scale",), epsilon=1e-5)


def test_skip_norm_gives_the_sum() -> None:
    inputs = {"x": f32(2, 3, 8), "skip": f32(2, 3, 8), "scale": f32(8), "beta": f32(8)}
    model = model_of("SkipLayerNormalization", inputs, 4)
    node = model.graph.node[0]
    node.output[1] = node.output[2] = ""
    del model.graph.output[1:3]
    (y, total) = translated(model, ".", {}, {}, "tcc")(**inputs)
    np.testing.assert_allclose(total, inputs["x"] + inputs["skip"])
    (want, _) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("mask", [False, True])
def test_embed_norm(segments: bool, mask: bool) -> None:
    inputs: Arrays = {"ids": RNG.integers(0, 11, (2, 5)).astype(np.int32)}
    inputs["segments" if segments else "-segments"] = RNG.integers(0, 2, (2, 5)).astype(np.int32)
    inputs |= {"words": f32(11, 8), "places": f32(9, 8)}
    inputs["kinds" if segments else "-kinds"] = f32(2, 8)
    inputs |= {"scale": f32(8), "bias": f32(8)}
    if mask:
        inputs["mask"] = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    check("EmbedLayerNormalization", inputs, 2, epsilon=1e-5)


ATTENTION: dict[str, Callable[[], Arrays]] = {
    "no mask": dict,
    "counts": lambda: {"mask": np.array([3, 5], np.int32)},
    "keys": lambda: {"mask": np.array([[1, 1, 0, 1, 0], [1, 1, 1, 1, 1]], np.int32)},
    "pairs": lambda: {"mask": np.tril(np.ones((2, 5, 5), np.int32))},
    "past": lambda: {"-mask": f32(1), "past": f32(2, 2, 2, 3, 4)},
    "bias": lambda: {"-mask": f32(1), "-past": f32(1), "more": f32(2, 2, 5, 5)},
}


@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("form", ATTENTION)
def test_attention(form: str, causal: int) -> None:
    inputs = {"x": f32(2, 5, 6), "weight": f32(6, 24), "bias": f32(24), **ATTENTION[form]()}
    check("Attention", inputs, 2 if form == "past" else 1, weights=("weight", "bias"), num_heads=2,
          unidirectional=causal, tolerance=1e-4)  # fmt: skip


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("form", ["flat", "heads", "part"])
@pytest.mark.parametrize("first", [False, True])
def test_rotary(interleaved: int, form: str, first: bool) -> None:
    x = f32(2, 5, 24) if form == "flat" else f32(2, 3, 5, 8)
    half = 2 if form == "part" else 4
    at = np.array([2] if first else RNG.integers(0, 9, (2, 5)), np.int64)
    inputs = {"x": x, "at": at, "cosines": f32(9, half), "sines": f32(9, half)}
    more = {"num_heads": 3, "rotary_embedding_dim": 4} if form == "part" else {}
    check("RotaryEmbedding", inputs, interleaved=interleaved, **more)


@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("more", [{}, {"local_window_size": 2}, {"softcap": 5.0}, {"scale": 0.3},
                                  {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}])  # fmt: skip
def test_group_attention(past: int, packed: bool, more: dict[str, Any]) -> None:
    steps = 1 if past else 5
    all_keys = past + steps
    ends = np.array([all_keys - 1, all_keys - 1], np.int32)
    if packed:
        inputs: Arrays = {"q": f32(2, steps, 16 * (4 + 2 * 2)), "-k": f32(1), "-v": f32(1)}
    else:
        inputs = {"q": f32(2, steps, 64), "k": f32(2, steps, 32), "v": f32(2, steps, 32)}
    inputs |= {"past_k": f32(2, 2, past, 16), "past_v": f32(2, 2, past, 16), "ends": ends}
    inputs["all"] = np.array(all_keys, np.int32)
    if "do_rotary" in more:
        inputs |= {"cosines": f32(16, 8), "sines": f32(16, 8)}
    check("GroupQueryAttention", inputs, 3, num_heads=4, kv_num_heads=2, tolerance=1e-4, **more)


@pytest.mark.parametrize("before", [0, 3, 5, 6])
@pytest.mark.parametrize("known", [False, True])
def test_group_attention_over_a_buffer(before: int, known: bool) -> None:
    """A past of 6 rows holds fewer keys than it has room for: the present is no longer than it has to be."""
    inputs: Arrays = {"q": f32(2, 1, 64), "k": f32(2, 1, 32), "v": f32(2, 1, 32)}
    inputs |= {"past_k": f32(2, 2, 6, 16), "past_v": f32(2, 2, 6, 16)}
    inputs |= {"ends": np.full(2, before, np.int32), "all": np.array(before + 1, np.int32)}
    model = model_of("GroupQueryAttention", inputs, 3, ("all",) if known else (), num_heads=4, kv_num_heads=2)
    arguments = {name: array for name, array in inputs.items() if name != "all" or not known}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, arguments)
    made = translated(model, ".", {}, {}, "tcc")(**arguments)
    np.testing.assert_allclose(made[0], wanted[0], rtol=1e-4, atol=1e-4)
    for got, want in zip(made[1:], wanted[1:], strict=True):
        assert not known or got.shape == want.shape
        np.testing.assert_array_equal(got[:, :, : before + 1], want[:, :, : before + 1])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [16, 32])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("k", [32, 64, 40])
def test_matmul_bits(bits: int, block: int, zero: bool, k: int) -> None:
    n, blocks = 6, -(-k // block)
    inputs: Arrays = {"a": f32(2, 3, k)}
    inputs["b"] = RNG.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    inputs["scales"] = f32(n * blocks) * np.float32(0.1)
    weights = ("b", "scales")
    if zero:
        inputs["zero"] = RNG.integers(0, 256, n * -(-blocks * bits // 8)).astype(np.uint8)
        weights = (*weights, "zero")
    check("MatMulNBits", inputs, weights=weights, K=k, N=n, bits=bits, block_size=block, tolerance=1e-3)


def test_forms_that_are_not_compiled() -> None:
    inputs = {"a": f32(2, 32), "b": np.zeros((6, 1, 16), np.uint8), "scales": f32(6), "-z": f32(1)}
    inputs["order"] = np.zeros(32, np.int32)
    model = model_of("MatMulNBits", inputs, 1, K=32, N=6, bits=4, block_size=32)
    with pytest.raises(FileError, match="its g_idx is not compiled"):
        translated(model, ".", {}, {}, "tcc")
    with pytest.raises(FileError, match=r"com\.microsoft\.Unheard of opset 1"):
        translated(model_of("Unheard", {"a": f32(2)}, 1), ".", {}, {}, "tcc")


RANKS: dict[str, tuple[str, Arrays, dict[str, Any], str]] = {
    "norm of a number": ("SkipLayerNormalization", {"x": f32(), "y": f32(), "scale": f32(3)}, {}, "no axes"),
    "past of 3 axes": (
        "Attention",
        {"x": f32(2, 5, 6), "weight": f32(6, 24), "-bias": f32(1), "-mask": f32(1), "past": f32(2, 2, 3)},
        {"num_heads": 2},
        "its input 5 has 3 axes instead of 5",
    ),
    "widths that are no integers": (
        "Attention",
        {"x": f32(2, 5, 6), "weight": f32(6, 24)},
        {"num_heads": 2, "qkv_hidden_sizes": [8.0, 8.0, 8.0]},
        "a form that is not compiled",
    ),
    "rotation of a matrix": (
        "RotaryEmbedding",
        {"x": f32(2, 8), "at": np.zeros(1, np.int64), "cosines": f32(8, 4), "sines": f32(8, 4)},
        {},
        "its input 1 has 2 axes instead of 4",
    ),
    "keys without values": (
        "GroupQueryAttention",
        {"q": f32(2, 1, 8), "k": f32(2, 1, 8), "-v": f32(1), "-past_k": f32(1), "-past_v": f32(1),
         "ends": np.zeros(2, np.int32), "all": np.ones(1, np.int32)},
        {"num_heads": 2, "kv_num_heads": 2},
        "it has no input 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RANKS)
def test_shapes_that_nobody_has_checked(case: str) -> None:
    """The onnx package does not know this domain: what does not fit is an error, no read beyond a shape."""
    op, inputs, attributes, why = RANKS[case]
    with pytest.raises(FileError, match=why):
        translated(model_of(op, inputs, 1, **attributes), ".", {}, {}, "tcc")
