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
from dlc.arrays import names

X, V = np.linspace(0.5, 9.5, 7), np.array([1.0, 4.0, 4.5])
SINE = np.sin


def test_a_function_of_numpy_by_another_name() -> None:
    inner = np.cos
    np.testing.assert_array_equal(dlc.jit(lambda x: SINE(x) + inner(x))(X), np.sin(X) + np.cos(X))


THEIRS: dict[str, Callable[..., Any]] = {
    "digitize": lambda x, v, q: np.digitize(v, x),
    "percentile": lambda x, v, q: np.percentile(x, q),
    "nanpercentile": lambda x, v, q: np.nanpercentile(x, q),
}


@pytest.mark.parametrize("name", names.TORCH)
def test_what_torch_has_instead_takes_arrays(name: str) -> None:
    numpys = getattr(np, name)
    quantile = name.endswith("quantile")
    theirs = THEIRS.get(name) or (
        lambda x, v, q: numpys(x, q) if quantile else numpys(x, v) if "v" in names.TORCH[name] else numpys(x)
    )
    made = eval(f"lambda x, v, q: {names.TORCH[name]}", {"torch": torch})
    q = 0.25 if quantile else 25.0
    want = theirs(X, V, q)
    np.testing.assert_allclose(dlc.jit(made)(X, V, q), want)
    with pytest.raises(dlc.CaptureError) as caught:
        dlc.jit(theirs, constants=True)(X, V, q)
    assert f"use {names.TORCH[name]}, which takes arrays here, too" in str(caught.value)


FFT: Callable[..., Any] = lambda x: np.fft.rfft(x)  # noqa: E731
SAID: dict[str, tuple[Callable[..., Any], str]] = {
    "fft": (FFT, r"np\.fft\.rfft .*use torch\.fft\.rfft\(x\), which takes arrays here"),
    "linalg": (lambda x: np.linalg.pinv(x[:, None]), r"use torch\.linalg\.pinv\(x\)"),
    "convolve": (lambda x: np.convolve(x, x), r"sum of slices .*torch\.nn\.functional\.conv1d"),
    "piecewise": (lambda x: np.piecewise(x, [x > 1], [1, 0]), "write the function on whole arrays"),
    "put": (lambda x: np.put(x, [1], 2), r"write x\[mask\] = value"),
    "packbits": (lambda x: np.packbits(x), "do it before or after, outside of the function"),
    "at": (lambda x: np.add.at(x, [1], 2), r"np\.add\.at .*\(\(i\[:, None\] == np\.arange\(n\)\)"),
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
