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


def padded(after: str) -> str:
    """A picture with the second rows and columns from its edges beside them, and an operation after it."""
    text = "dlc 1 graph\n\nfn padded(x: f32[8, 28, 28]) -> (f32[8, 30, 30]) {\n"
    for row, start in (("a", 1), ("c", 26)):
        text += f"  let {row}: f32[8, 1, 28] = slice x axis=1 start={start} step=1\n"
    for row, height in (("a", 1), ("x", 28), ("c", 1)):
        for column, start in (("0", 1), ("1", 26)):
            text += f"  let {row}{column}: f32[8, {height}, 1] = slice {row} axis=2 start={start} step=1\n"
        text += f"  let {row}2: f32[8, {height}, 30] = cat {row}0, {row}, {row}1 axis=2\n"
    text += "  let y: f32[8, 30, 30] = cat a2, x2, c2 axis=1\n"
    return text + f"  let z: f32[8, 30, 30] = {after}\n  ret z\n}}\n"


def test_parts_of_parts_are_stored_once() -> None:
    """Nine pieces, each from where it stands in the picture to where it stands in the result."""
    text = opt(padded("mul y, 2.0"), "--pipeline", "--pass", "lower,schedule")
    assert len(re.findall(r"= kernel", text)) == 1
    assert len(re.findall(r"store ", text)) == 9


LOOKUP = """dlc 1 graph

fn gather(x: f32[8, 28, 28], i: i64[56], j: i64[32]) -> (f32[8, 56, 32]) {
  let y: f32[8, 56, 28] = gather x, i axis=1
  let z: f32[8, 56, 32] = gather y, j axis=2
  ret z
}
"""


def test_what_is_looked_up_is_looked_up_in_one_loop() -> None:
    """Rows once a row, outside of the loop over the columns."""
    text = opt(LOOKUP, "--pipeline", "--pass", "lower,schedule")
    assert len(re.findall(r"store ", text)) == 1
    assert re.search(r"bind .*\n *for .* vector", text)
    along = LOOKUP.replace("gather y, j axis=2", "gather y, j axis=1").replace("56, 32]", "32, 28]")
    text = opt(along, "--pipeline", "--pass", "lower,schedule")
    assert len(re.findall(r"store ", text)) == 2, "an index that is not looked at would not be checked"


def places(count: int, tail: str) -> str:
    """Two columns of 8 looked up, in `count` rows each of the 6 that there are."""
    return f"""dlc 1 graph

fn places(x: f32[4, 6, 5], i: i64[{count}], j: i64[8], k: i64[8]) -> (f32[4, {count}, 8]) {{
  let p: f32[4, 6, 8] = gather x, j axis=2
  let q: f32[4, 6, 8] = gather x, k axis=2
  let a: f32[4, {count}, 8] = gather p, i axis=1
  let b: f32[4, {count}, 8] = gather q, i axis=1
{tail}  ret y
}}
"""


def test_gathers_of_the_same_rows_wait_where_rows_are_few() -> None:
    """What they are combined to is; but not where that saves little, nor what a single gather finds."""
    both = "  let y: f32[4, {}, 8] = sub a, b\n"
    text = opt(places(12, both.format(12)), "--pipeline")
    assert len(re.findall(r"gather", text)) == 3
    assert len(re.findall(r"= kernel", text)) == 2
    for count in (6, 8):
        text = opt(places(count, both.format(count)), "--pipeline")
        assert len(re.findall(r"gather", text)) == 4
        assert len(re.findall(r"= kernel", text)) == 1
    text = opt(places(12, "  let y: f32[4, 12, 8] = exp a\n"), "--pipeline")
    assert len(re.findall(r"= kernel", text)) == 1


def stacked(op: str) -> str:
    return f"""dlc 1 graph

fn stacked[N in 2..inf](x: f32[N, 1, 1]) -> (f32[N, 2, 2]) {{
  let a: f32[N, 1, 1] = {op} x
  let b: f32[N, 1, 1] = neg a
  let u: f32[N, 1, 2] = cat a, b axis=2
  let v: f32[N, 1, 2] = cat b, a axis=2
  let y: f32[N, 2, 2] = cat u, v axis=1
  ret y
}}
"""


def test_what_parts_in_turn_are_made_of_is_made_once() -> None:
    assert opt(stacked("exp"), "--pipeline", "--pass", "lower,schedule").count(" exp ") == 1


TWICE = """dlc 1 graph

fn twice[B in 2..inf, N in 2..inf](x: f32[B, N, N]) -> (f32[B, 2*N, 2*N]) {
  let y: f32[B, N, 2, N, 2] = expand x to=[0, 1, 3]
  let z: f32[B, 2*N, 2*N] = reshape y
  ret z
}
"""


def test_threads_share_no_loop_with_little_to_do() -> None:
    """Each element twice: neither its copies nor those of a row, one by one, are worth a meeting."""
    text = opt(TWICE, "--pipeline", "--pass", "lower,schedule")
    shared = [line.split(" in ")[1] for line in text.splitlines() if " parallel" in line]
    assert shared == ["B*N parallel {", "2 parallel {"] * 2  # of short rows and of others


def test_a_reshape_divides_in_its_own_axes_alone() -> None:
    """Of sizes that may be 0 none is known to be the larger one: the last axes still go along each other."""
    text = opt(
        "dlc 1 graph\n\nfn swapped[N, M, K](x: f32[N, M, K], z: f32[N, 2*M, K]) -> "
        "(f32[M, N, K], f32[2*N, M, K]) {\n"
        "  let a: f32[M, N, K] = reshape x\n  let y: f32[M, N, K] = mul a, 2.0\n"
        "  let b: f32[2*N, M, K] = reshape z\n  let w: f32[2*N, M, K] = mul b, 2.0\n  ret y, w\n}\n",
        "--pipeline",
        "--pass",
        "lower",
    )
    loads = [line.partition("= load ")[2] for line in text.splitlines() if "= load " in line]
    assert loads == ["x[(N*i0 + i1) // M, (N*i0 + i1) % M, i2]", "z[i3 // 2, M*(i3 % 2) + i4, i5]"]
