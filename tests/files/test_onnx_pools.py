"""Windows of ONNX's pools against onnxruntime: the reference evaluator exchanges pads of axes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from dlc.files.onnx import translated

FORMS = {
    "plain": {},
    "strides": {"strides": [2, 1]},
    "dilations": {"dilations": [1, 2]},
    "ceil": {"strides": [2, 2], "ceil_mode": 1},
    "padding counts": {"count_include_pad": 1},
}


@pytest.mark.parametrize(
    ("op", "form"), [("AveragePool", form) for form in FORMS] + [("MaxPool", form) for form in FORMS][:-1]
)
def test_pads_of_each_side(op: str, form: str) -> None:
    """Each combination of 0 and 1 at the four sides."""
    named: dict[str, Any] = FORMS[form]
    x = np.random.default_rng(0).standard_normal((2, 3, 7, 6), np.float32)
    for pads in itertools.product((0, 1), repeat=4):
        node = helper.make_node(op, ["x"], ["y"], kernel_shape=[2, 3], pads=pads, **named)
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
            [helper.make_empty_tensor_value_info("y")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        wanted = session.run(None, {"x": x})[0]
        got = translated(model, ".", {}, {}, "tcc")(x)
        assert got.shape == wanted.shape, pads
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6, err_msg=str(pads))
