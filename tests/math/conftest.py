"""The strips of every instruction set this processor has, as `make` has compiled them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.ulp.strips import Strips, available
from tests.math.built import strips


@pytest.fixture(scope="session", params=available())
def isa(request: pytest.FixtureRequest) -> Strips:
    return strips(request.param)


@pytest.fixture(scope="session")
def best() -> Strips:
    return strips(available()[-1])


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
