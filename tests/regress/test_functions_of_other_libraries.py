"""Functions of other libraries in dlc.jit: the message named their internals, or said nothing to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dlc

X = np.linspace(0.5, 9.5, 7)
SINE = np.sin


def test_a_function_of_numpy_by_another_name() -> None:
    inner = np.cos
    np.testing.assert_array_equal(dlc.jit(lambda x: SINE(x) + inner(x))(X), np.sin(X) + np.cos(X))


SAID: dict[str, tuple[Callable[..., Any], str]] = {
    "unique": (lambda x: np.unique(x), r"np\.unique .*its size depends on the values"),
    "rows": (lambda x: np.apply_along_axis(abs, 0, x), "write the function on whole arrays"),
    "allclose": (lambda x: np.allclose(x, x), r"use np\.isclose\(\.\.\)\.all\(\)"),
    "tensorsolve": (lambda x: np.linalg.tensorsolve(x, x), r"np\.linalg\.solve of reshaped arrays does it"),
    "save": (lambda x: np.save("x", x), "read and write files outside of the function"),
    "require": (lambda x: np.require(x), "do it before or after, outside of the function"),
}


@pytest.mark.parametrize("name", SAID)
def test_a_function_of_numpys_that_is_not_compiled(name: str) -> None:
    fn, said = SAID[name]
    with pytest.raises(dlc.CaptureError, match=said):
        dlc.jit(fn)(X)


def test_what_is_said_of_fft_is_right() -> None:
    np.testing.assert_allclose(dlc.jit(lambda x: torch.fft.rfft(x))(X), np.fft.rfft(X))


def test_a_package_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages" / "wavelets"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from ._impl import haar\n")
    (folder / "_impl.py").write_text("_TABLE = {1: 2}\n\n\ndef haar(x):\n    return x * _TABLE[1]\n")
    monkeypatch.syspath_prepend(str(folder.parent))
    wavelets = __import__("wavelets")
    try:
        with pytest.raises(TypeError) as caught:
            dlc.jit(lambda x: wavelets.haar(x))(X)
    finally:
        for module in ("wavelets", "wavelets._impl"):
            del sys.modules[module]
    said = str(caught.value)
    assert "calls wavelets, which dlc.jit does not compile (wavelets._impl reads '_TABLE', a dict)" in said
    assert "call it outside and pass what it gives as an argument" in said
