"""The file that an InternalError writes has no line of the user's sources and none of his paths."""

from typing import Any

import pytest

from dlc.options import parse
from dlc.repro import _public, of_fault

PROGRAM = """dlc 1 graph

fn f[N](secret: f32[N]) -> (f32[N]) {
  let y: f32[N] = add secret, secret  @add "/home/me/private plans/model.py:41: return x + hidden(secret)"
  ret y
}
"""


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (
            "the pass fuse broke V12 at /home/me/private plans/model.py:41: return x + hidden(secret)",
            "the pass fuse broke V12 at ..",
        ),
        ("V03: model.py:41: return x + hidden(secret)", "V03: .."),
        ("cannot write ~/.cache/plans/unit.c: no space", "cannot write ..: no space"),
        ("the pass fuse: V12: y is read and/or written 3/4 of the time", None),
    ],
)
def test_places_are_left_out(said: str, left: str | None) -> None:
    assert _public(said, PROGRAM) == (left or said)


def test_the_file_has_none(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLC_DUMP_DIR", str(tmp_path))
    error = RuntimeError("V12 at /home/me/private plans/model.py:41: return x + hidden(secret)\nmore")
    error.program, error.parts = PROGRAM, {"inputs": [("tensor", 0)], "calls": []}  # type: ignore[attr-defined]
    of_fault(error, parse({}), [])
    (file,) = tmp_path.glob("*.dlc")
    text = file.read_text()
    assert "V12 at .." in text and "hidden(" not in text and "/home" not in text
