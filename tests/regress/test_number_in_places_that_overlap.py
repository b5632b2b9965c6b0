"""One number may be stored in places that overlap: V28 forgot it when the kernel had been lowered."""

import pytest

import dlc
from dlc import ir

TEXT = """dlc 1 graph

fn filled(x: f32[5, 5]) -> (f32[5, 5] strides=[2, 1]) {
  let a: f32[5, 5] = const 0.0
  ret a
}
"""


@pytest.mark.parametrize("target", ["tcc", "cc", "c", "hls"])
def test_a_number_is_lowered(target: str) -> None:
    function = ir.parse(TEXT)
    for name in ("fuse", "lower", "schedule", target):
        function = function.run_pass(name)
    assert "strides=[2, 1] = kernel" in function.text and "for i0 in" in function.text


def test_two_numbers_are_not() -> None:
    function = ir.parse(TEXT).run_pass("fuse").run_pass("lower")
    text = function.text.replace("const 0.0", "const 0.0\n    let b: f32 = const 1.0")
    store = next(line for line in text.splitlines() if "store" in line)
    with pytest.raises(dlc.InternalError, match="V28"):
        ir.parse(text.replace(store, store + "\n" + store[: store.rindex("=")] + "= b"))
