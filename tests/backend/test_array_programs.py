"""The NumPy programs of `python -m benchmarks arrays`, unchanged: values, dtypes and what they write."""

from typing import Any

import numpy as np
import pytest

from benchmarks.arrays.programs import PROGRAMS
from dlc.arrays import flow
from tests.backend.jitted import jit

#: What has no loop, or none over more steps than are captured one by one.
WITHOUT_LOOPS = ("equation_of_state", "random_walks")


def outcome(call: Any, arguments: tuple[Any, ...]) -> list[Any]:
    found = call(*arguments)
    results = found if isinstance(found, tuple) else (found,)
    return [*results, *(a for a in arguments if isinstance(a, np.ndarray))]


@pytest.mark.parametrize("name", PROGRAMS)
def test_numpys_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    node = flow.node
    monkeypatch.setattr(flow, "node", lambda op, what, *rest: taken.append(what) or node(op, what, *rest))
    program = PROGRAMS[name]
    fast = jit(program.function)
    for size in (program.small, program.small + 5):
        expected = outcome(program.function, program.arguments(size))
        for ours, theirs in zip(outcome(fast, program.arguments(size)), expected, strict=True):
            assert type(ours) is type(theirs)
            if theirs is not None:
                np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
                assert np.asarray(ours).dtype == np.asarray(theirs).dtype
    assert bool(taken) == (name not in WITHOUT_LOOPS)
