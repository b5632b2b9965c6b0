"""Models saved, and run where torch cannot be imported: the bits of torch.compile with dlc's own products.

Each is written as C as well, which compiles strictly and has the same bits.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import dlc
from dlc.files.model import _of_tensor
from examples.programs import FUNCTIONS, MODELS
from tests.export.compilers import CLANG, NATIVE, STRICT, TCC, passes
from tests.export.compilers import build as build_c
from tests.files import apart
from tests.files.networks import NETWORKS
from tests.models.test_transformers import ARCHITECTURES, build, inputs

#: Their source goes over the length step by step, so that torch.export fixes it.
FIXED = ("mamba",)
OWN = {"products": "own", "strict": True, "tier": "tcc"}


def compiled(model: Any, *calls: tuple[Tensor, ...]) -> list[list[np.ndarray]]:
    fast = torch.compile(model, backend="dlc", fullgraph=True, dynamic=True, options=OWN)
    with torch.no_grad():
        return [[_of_tensor(t) for t in torch.utils._pytree.tree_leaves(fast(*args))] for args in calls]


def same(have: list[list[np.ndarray]], want: list[list[np.ndarray]]) -> None:
    for k, (some, others) in enumerate(zip(have, want, strict=True)):
        assert len(some) == len(others)
        for j, (a, b) in enumerate(zip(some, others, strict=True)):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), (k, j)
            one, other = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (a, b))
            assert np.array_equal(one, other), (
                k,
                j,
                np.abs(a.astype(np.float64) - b.astype(np.float64)).max(),
            )


def check(model: Any, path: Path, dynamic: Any, *calls: tuple[Tensor, ...]) -> None:
    dlc.save(model, path, calls[0], dynamic_shapes=dynamic)
    want = compiled(model, *calls)
    same(apart.call(path, *([_of_tensor(t) for t in args] for args in calls)), want)
    as_c(path)


def as_c(path: Path) -> None:
    """The model's C: each compiler says nothing, the bits are those of dlc, and no function is missing.

    Names that another object sees begin with the model's, so that several are in one program.
    """
    folder, other = path.parent / "c", path.parent / "other"
    m = dlc.load(path, tier="tcc")
    m.export_c(folder)
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    passes(build_c(folder, *NATIVE, *sanitizers, "-DCHECK_THREADS=3", "-pthread"))
    passes(build_c(folder, *STRICT, "-march=native"))  # with the vectors that -O1 leaves out
    for cc, flags in ((CLANG, STRICT), (TCC, ["-std=c11", "-Wall", "-Werror"])):
        if cc:
            passes(build_c(folder, *flags, cc=cc))
    for flags in ([], ["-ffreestanding"], ["-march=native"]):
        subprocess.run(["gcc", *STRICT, *flags, "-c", "m.c"], cwd=folder, check=True)
        names = subprocess.run(["nm", "-g", "m.o"], cwd=folder, capture_output=True, text=True, check=True)
        for kind, name in (line.split()[-2:] for line in names.stdout.splitlines()):
            assert name in ("memcpy", "memset") if kind == "U" else name.startswith("m_"), (kind, name)
    header = ["g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "m.h"]
    subprocess.run(header, cwd=folder, check=True)
    if m.sizes:
        sizes = {name: low + 2 * by for name, (low, _, by) in m.sizes.items()}
        m.export_c(other, sizes=sizes)
        passes(build_c(other, *NATIVE))


def dims(*calls: tuple[Tensor, ...]) -> Any:
    """The sizes of arguments that are not the same in all calls."""
    return tuple(
        {
            axis: torch.export.Dim.AUTO
            for axis, (n, m) in enumerate(zip(x.shape, y.shape, strict=True))
            if n != m
        }
        for x, y in zip(*calls, strict=True)
    )


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("name", MODELS)
def test_model(name: str, tmp_path: Path) -> None:
    about = MODELS[name]
    lengths = (12, 17) if about.varies == "length" else (3, 5)
    calls = [about.arguments(small=True, length=length, seed=length) for length in lengths]
    check(about.build(small=True), tmp_path / "m.dlc", dims(*calls), *calls)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architecture(name: str, tmp_path: Path) -> None:
    model = build(name)
    lengths = (12, 12) if name in FIXED else (12, 9)
    calls = [(inputs(model, length, seed),) for seed, length in enumerate(lengths)]
    check(model, tmp_path / "m.dlc", dims(*calls), *calls)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str, tmp_path: Path) -> None:
    network, arguments = NETWORKS[name]
    torch.manual_seed(0)
    model, calls = network().eval(), [arguments(k) for k in range(2)]
    if name != "lstm":
        check(model, tmp_path / "m.dlc", dims(*calls), *calls)
        return
    # Dynamo takes an LSTM only where it is told to, and has another graph than torch.export then.
    path = tmp_path / "m.dlc"
    dlc.save(model, path, calls[0], dynamic_shapes=dims(*calls))
    for have, args in zip(
        apart.call(path, *([_of_tensor(t) for t in args] for args in calls)), calls, strict=True
    ):
        for a, b in zip(have, torch.utils._pytree.tree_leaves(model(*args)), strict=True):
            np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-5, atol=1e-6)
    as_c(path)


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str, tmp_path: Path) -> None:
    function = FUNCTIONS[name]
    calls = [function.arguments(n) for n in (4096, 3081)]
    check(function.call, tmp_path / "m.dlc", dims(*calls), *calls)
