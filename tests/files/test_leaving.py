"""What leaves torch has eager's results, and what does not is refused by name."""

from __future__ import annotations

import pytest

from tests.files.leaving import count_all
from tests.shards import Shard


def test_the_shards_entries(request: pytest.FixtureRequest) -> None:
    found = count_all(Shard.parse(request.config.option.shard))
    assert found.wrong == {}


@pytest.mark.parametrize(
    "name", ["nn.functional.layer_norm", "matmul", "nn.functional.conv2d", "nn.functional.gelu"]
)
def test_leaves(name: str) -> None:
    found = count_all(Shard(0, 1), name)
    assert found.leave and not found.stay and not found.wrong
