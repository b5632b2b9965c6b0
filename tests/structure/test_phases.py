"""Phases that become one: each is a round through memory, and a meeting of the threads."""

import re

from ..dlc_opt import opt

FRAME = """dlc 1 graph

fn frame(x: f32[512, 28, 28]) -> (f32[512, 30, 30]) {
  let y: f32[512, 30, 30] = pad x, 0.0 lo=[0, 1, 1]
  ret y
}
"""


def test_a_frame_is_stored_with_its_picture() -> None:
    """The four sides hold a number each, which stands between the phases."""
    text = opt(FRAME, "--pipeline", "--pass", "lower,schedule")
    assert len(re.findall(r"for .* parallel", text)) == 1
    assert len(re.findall(r"store ", text)) == 5
