"""Models of torch through torch.onnx.export to dlc.load, and through Model.save to onnxruntime and back."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dlc
from dlc import FileError
from dlc.files.onnx import operators
from tests.files.onnx_models import MODELS, export, made
from tests.models.runs import exact_model
from tests.tolerance import assert_program, double

#: What torch.export promises of the size, and a file of ONNX does not say.
BOUND = {"size": (2, 64)}


def near(model: Any, arguments: tuple[Tensor, ...], *results: np.ndarray) -> None:
    """At most twice as far from the result in float64 as torch's is, and an ulp."""
    with torch.no_grad():
        eager, exact = model(*arguments), exact_model(model)(*double(arguments))
    for result in results:
        assert_program({"y": torch.from_numpy(result)}, {"y": eager.contiguous()}, {"y": exact})


def sizes(name: str, dynamic: bool) -> tuple[int, ...]:
    return (5, 9) if dynamic else (5,)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_from_torch(name: str, dynamic: bool, tmp_path: Path) -> None:
    model = made(name)
    export(name, model, tmp_path / "m.onnx", dynamic)
    bounds: Any = BOUND if dynamic else None
    try:
        loaded = dlc.load(tmp_path / "m.onnx", tier="tcc", sizes=bounds)
    except FileError as error:
        known = {op for op, _ in operators()}
        missing = set(re.findall(r"(?:: |; )([\w.]+)(?: \S+)? of opset", str(error)))
        assert missing and not missing & known, str(error)
        pytest.skip(f"no row of onnx.def has {', '.join(sorted(missing))}")
    for n in sizes(name, dynamic):
        arguments = MODELS[name].arguments(model, n, n)
        near(model, arguments, loaded(*(x.numpy() for x in arguments)))


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_to_onnx(name: str, dynamic: bool, tmp_path: Path) -> None:
    """Saved as ONNX, checked, run by onnxruntime, and loaded again."""
    import onnxruntime

    model, case = made(name), MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shapes = case.dynamic() if dynamic else None
        dlc.save(model, tmp_path / "m.onnx", case.arguments(model, 5, 0), dynamic_shapes=shapes)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    bounds: Any = BOUND if dynamic else None
    again = dlc.load(tmp_path / "m.onnx", tier="tcc", sizes=bounds)
    for n in sizes(name, dynamic):
        arguments = case.arguments(model, n, n)
        arrays = [x.numpy() for x in arguments]
        (result,) = session.run(None, dict(zip(names, arrays, strict=True)))
        near(model, arguments, result, again(*arrays))
