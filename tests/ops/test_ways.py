"""ways.INDIRECT is true of the operators that go through AOTAutograd: a part of the names in each run."""

import pytest

from tests.ops import ways


@pytest.mark.in_turn(ways.PARTS)
@pytest.mark.parametrize("number", range(ways.PARTS))
def test_part(number: int) -> None:
    assert [line for ops in ways.part(number) for line in ways.differences(ops)] == []


def test_what_is_listed_is_an_entry() -> None:
    names = {ops[0].name for ops in ways.part(0, 1)}
    assert sorted(name for name in ways.allowed() if name.removesuffix(".in_place") not in names) == []
