"""Rows that a mask has chosen, of which several things are computed: how many they are is found by a call,
and what only has to come after that call reads nothing of it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import dlc

X = [[1.0, -2, 3, 0.5], [2, 0, -1, 1.5], [-3, 4, 1, 1]]


def sums(x: Any) -> Any:
    w = x[x[:, 0] > 1] + 1
    return w[:, 0].sum(), w.sum()


def products(x: Any) -> Any:
    w = x[x[:, 0] > 1] * 2
    return (w[:, 0] * w[:, 1]).sum(), (w * w).sum(), w


def written(x: Any) -> Any:
    v = x[x[:, 0] > 1]
    w = v[:, 0]
    v += 1
    return w.sum(), v.sum()


PROGRAMS = [sums, products, written]


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_of_tensors(function: Callable[..., Any], tier: str) -> None:
    x = torch.tensor(X)
    for mine, theirs in zip(dlc.jit(function, tier=tier)(x), function(x.clone()), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("function", PROGRAMS)
def test_of_arrays(function: Callable[..., Any]) -> None:
    x = np.array(X)
    for mine, theirs in zip(dlc.jit(function)(x), function(x.copy()), strict=True):
        np.testing.assert_allclose(mine, theirs)


@pytest.mark.parametrize("function", PROGRAMS)
def test_compiled(function: Callable[..., Any]) -> None:
    x = torch.tensor(X)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), torch.no_grad():
        found = torch.compile(function, backend="dlc", options={"strict": True})(x)
    for mine, theirs in zip(found, function(x.clone()), strict=True):
        torch.testing.assert_close(mine, theirs)
