"""What the tests of the backend share."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo

import dlc
from examples.kernels import page


@pytest.fixture
def compiles() -> Callable[[], int]:
    """Graphs compiled since the test began."""
    before = dlc.counters()["graphs"]
    return lambda: dlc.counters()["graphs"] - before


@pytest.fixture
def _one_tier(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Libtcc's tier alone, and no graph is left for the next test."""
    monkeypatch.setenv("DLC_TIER", "tcc")
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="session")
def kernels() -> dict[str, Any]:
    """The kernels of docs/kernels.md, by name."""
    return page()
