"""What arithmetic costs, by the processor's vectors: the table, and what the passes make of it."""

import pytest

from benchmarks.cost.__main__ import kept
from benchmarks.cost.ops import ops
from tests.dlc_opt import opt

JOINT = """dlc 1 graph

fn j[N](x: f32[N], tangents: f32[N]) -> (f32[N], f32[N], f32[N]) {
  let p: f32[N] = call x target="f" args="$0" site=0
  let t: f32[N] = tanh p
  let y: f32[N] = call t target="g" args="$0" site=1
  let gt: f32[N] = mul tangents, t
  let gp: f32[N] = mul tangents, p
  ret y, gt, gp
}
"""


@pytest.mark.parametrize("isa", ["sse2", "avx2", "avx512", "neon"])
def test_every_op_has_a_cost(isa: str) -> None:
    """A new op needs a row: python -m benchmarks.cost --write."""
    column = kept()[isa]
    assert set(column) == {(name, dtype) for name, _, _, dtype in ops()}
    assert all(cost > 0 for cost in column.values())


@pytest.mark.parametrize(("isa", "saves"), [("sse2", True), ("avx512", False)])
def test_wide_vectors_compute_again_what_narrow_ones_save(
    isa: str, saves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLC_COSTS", isa)
    backward = opt(JOINT, "--partition", "1").split("---\n")[1]
    assert ("tanh" not in backward) == saves, backward
