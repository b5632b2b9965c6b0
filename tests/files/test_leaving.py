"""What leaves torch has eager's results, and what does not is refused by name."""

from __future__ import annotations

import re

import pytest

from tests.files.leaving import OTHERS, PAGE, REASONS, count_all, reason, written
from tests.shards import Shard


def test_the_shards_entries(request: pytest.FixtureRequest) -> None:
    found = count_all(Shard.parse(request.config.option.shard))
    assert found.wrong == {}
    # The table of docs/files.md: python -m tests.files.leaving --write
    documented = written()
    assert set(found.stay) <= documented and not documented & set(found.leave)


def test_nine_of_ten_leave() -> None:
    """As the table says; each run looks at the entries of its shard."""
    share = re.search(r"leave torch \(([\d.]+) %\)", PAGE.read_text())
    assert share and float(share[1]) >= 90


@pytest.mark.parametrize("why", ["aten.randn.default", "aten.nonzero.default", "aten.linalg_eig.default"])
def test_operators_have_a_reason(why: str) -> None:
    assert reason(why) in REASONS and reason("aten.none.default") == OTHERS


@pytest.mark.parametrize(
    "name", ["nn.functional.layer_norm", "matmul", "nn.functional.conv2d", "nn.functional.gelu"]
)
def test_leaves(name: str) -> None:
    found = count_all(Shard(0, 1), name)
    assert found.leave and not found.stay and not found.wrong
