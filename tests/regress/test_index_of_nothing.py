"""An index into an axis that is known to be empty was not checked, as no loop used it: the result was 0."""

import numpy as np
import pytest

import dlc
from tests.backend.test_flow import compiled

GATHER = """dlc 1 graph

fn f[M](x: f64[0], i: i64[M]) -> (f64[M]) {
  let y: f64[M] = gather x, i axis=0 wrap=1
  ret y
}
"""

SCATTER = """dlc 1 graph

fn f[M](x: f64[3, 0], i: i64[3, M], v: f64[3, M]) -> (f64[3, 0]) {
  let y: f64[3, 0] = scatter x, i, v op=sum axis=1 wrap=1
  ret y
}
"""


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("m", [0, 1, 20])
def test_index_of_nothing(m: int, tier: str) -> None:
    """With no index there is none that is out of range."""
    for run, args in (
        (compiled(GATHER, tier), (np.ones(0), np.zeros(m, np.int64))),
        (compiled(SCATTER, tier), (np.ones((3, 0)), np.zeros((3, m), np.int64), np.ones((3, m)))),
    ):
        if m:
            with pytest.raises(IndexError):
                run(*args)
        else:
            assert run(*args)[0].size == 0


def test_arrays() -> None:
    """An array that has no element in the program itself."""
    run = dlc.jit(lambda x: np.zeros(0)[x[:1].astype(int)])
    with pytest.raises(IndexError):
        run(np.ones(3))
