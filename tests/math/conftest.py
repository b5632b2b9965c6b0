"""The strips of every instruction set this processor has, compiled once per session."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.ulp.strips import Strips, available, strips


@pytest.fixture(scope="session", params=available())
def isa(request: pytest.FixtureRequest) -> Strips:
    return strips(request.param)


@pytest.fixture(scope="session")
def best() -> Strips:
    return strips(available()[-1])


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
