"""Random functions of tensors have eager's values, layouts, gradients, and writes to their arguments.

Each shard, so each commit, has other functions.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.models.random_functions import check, program
from tests.shards import Shard

EACH = 12  # functions a shard


@pytest.mark.parametrize("k", range(EACH))
def test_function(k: int, shard: Shard, compiler: Callable[..., Any]) -> None:
    made = program(shard.number * EACH + k)
    if not check(made, compiler):
        pytest.skip(f"eager cannot run it with the sizes of any call:\n{made}")
