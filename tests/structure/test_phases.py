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


KEPT = """dlc 1 graph

fn kept(x: f32[64, 512]) -> (f32[64, 1], f32[64], f32[1, 64, 1]) {
  let m: f32[64] = amax x axes=[1]
  let r: f32[64, 1] = reshape m
  let e: f32[64] = exp m
  let s: f32[1, 64, 1] = reshape e
  let y: f32[1, 64, 1] = neg s
  ret r, e, y
}
"""


def test_results_that_differ_in_axes_of_one_element_are_made_together() -> None:
    text = opt(KEPT, "--pipeline", "--pass", "lower,schedule")
    assert len(re.findall(r"reduce amax", text)) == 1
    assert len(re.findall(r"for .* parallel", text)) == 1
    assert len(re.findall(r"store ", text)) == 3
