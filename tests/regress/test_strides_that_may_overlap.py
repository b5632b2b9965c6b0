"""A promise of strides that may put two elements in one place broke V28 in the pass fuse or promise."""

import pytest
import torch

import dlc.backend  # noqa: F401  (the compiler wants to know of torch)
from dlc.compiler import compile_with
from dlc.options import parse

COPIED = """dlc 1 graph

fn f[N in 2..inf](x: f16[N, 2]) -> (f16[N, 2] strides=[1, 5]) {
  ret x
}
"""
COMPUTED = """dlc 1 graph

fn f[N in 2..inf](x: f16[N, 2]) -> (f16[N, 2] strides=[1, 5]) {
  let y: f16[N, 2] strides=[1, 5] = abs x
  ret y
}
"""
COMPUTED_DENSE = """dlc 1 graph

fn f[N in 2..inf](x: f16[N, 2]) -> (f16[N, 2] strides=[1, 5]) {
  let y: f16[N, 2] = abs x
  ret y
}
"""


class Refused(Exception):
    pass


@pytest.mark.parametrize("text", [COPIED, COMPUTED, COMPUTED_DENSE], ids=["copied", "computed", "dense"])
@pytest.mark.parametrize("verify", [True, "run"])
def test_a_promise_that_holds_for_some_sizes(text: str, verify: bool | str) -> None:
    """It is kept where the elements have places, and refused where they have not."""

    def refused(*args: object) -> object:
        raise Refused

    parts = {"text": text, "inputs": [("tensor", 0)], "outputs": [("tensor", 0, None)], "calls": []}
    compiled = compile_with(parse({"tier": "tcc", "verify": verify}), parts, refused)
    for n in (2, 3, 5):
        x = torch.randn(n, 2).half()
        (y,) = compiled(x)
        assert y.stride() == (1, 5) and y.equal(x if text == COPIED else x.abs())
    for n in (6, 40):
        with pytest.raises(Refused):
            compiled(torch.randn(n, 2).half())
