"""What the tests of dlc.explain share."""

from collections.abc import Callable

import pytest

import dlc


@pytest.fixture
def compiles() -> Callable[[], int]:
    """Graphs compiled since the test began."""
    before = dlc.counters()["graphs"]
    return lambda: dlc.counters()["graphs"] - before
