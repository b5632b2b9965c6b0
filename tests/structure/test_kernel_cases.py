"""What the functions of `python -m benchmarks kernels` become, and a layer of a transformer in training.

Each is captured by torch twice, with sizes that are names and with numbers; traffic.py says how bytes are
counted. Fewer is better; more needs a reason, and one that stands here.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import sympy
import torch
import torch._dynamo
from sympy import Expr
from torch import Tensor

from benchmarks.cases import CASES, Case
from benchmarks.peers import own_code
from dlc.report import collect
from tests.structure.traffic import binders, dim, letters, size, traffic

#: Kernels, calls and bytes; A, B, C are the sizes in the order in which the parameters have them, and equal
#: ones are one. Forward and backward together where a case has gradients.
TABLE: dict[str, tuple[int, int, str]] = {
    # elementwise
    "chain": (1, 0, "12*A"),
    "fifteen": (1, 0, "16*A"),
    "black_scholes": (1, 0, "20*A"),
    "mandelbrot": (1, 0, "12*A"),
    "adam": (1, 0, "28*A"),
    "gelu_bias": (1, 0, "8*A*B + 4*B"),
    "gelu_residual": (1, 0, "12*A*B + 4*B"),
    "swiglu": (1, 0, "12*A"),
    "mish": (1, 0, "8*A"),
    "softplus": (1, 0, "8*A"),
    "logit": (1, 0, "8*A"),
    "erfinv": (1, 0, "8*A"),
    "sines": (1, 0, "8*A"),
    "cartpole": (2, 0, "53*A"),
    "adam_of_100": (3, 0, "84*A"),
    # normalisations and other reductions
    "softmax": (1, 0, "8*A*B"),
    "softmax_bias": (1, 0, "8*A*B + 4*B"),
    "column_sum": (1, 0, "4*A*B + 4*B"),
    "variance": (1, 0, "4*A*B + 4*A"),
    "mean_square_error": (1, 0, "8*A + 8*((A + 1023)//1024)"),
    "cross_entropy": (2, 0, "4*A*B + 18*A + 16*((A + 1023)//1024)"),
    "layer_norm": (1, 0, "8*A*B + 8*B"),
    "rms_norm": (1, 0, "8*A*B + 4*B"),
    "batch_norm": (1, 0, "8*A*B*C + 8*B"),
    "batch_norm gradients": (2, 0, "20*A*B*C + 36*B"),
    "group_norm": (1, 0, "4*A*B*C + 32*A*C*(B//8) + 64*(B//8)"),
    "causal_softmax": (1, 0, "8*A*B*B"),
    "mean of axis 0": (1, 0, "4*A*B*C + 4*B*C"),
    "mean of axis 1": (1, 0, "4*A*B*C + 4*A*C"),
    "mean of axis 2": (1, 0, "4*A*B*C + 4*A*B"),
    "var of axis 0": (1, 0, "4*A*B*C + 4*B*C"),
    "var of axis 1": (1, 0, "4*A*B*C + 4*A*C"),
    "var of axis 2": (1, 0, "4*A*B*C + 4*A*B"),
    "norm of axis 0": (1, 0, "4*A*B*C + 4*B*C"),
    "norm of axis 1": (1, 0, "4*A*B*C + 4*A*C"),
    "norm of axis 2": (1, 0, "4*A*B*C + 4*A*B"),
    "argmax": (1, 0, "4*A*B + 8*A"),
    "cumsum": (1, 0, "8*A*B"),
    "nearest": (2, 0, "8*A*A + 8*A*B + 4*A"),
    "embedding_sum": (1, 0, "8*A*B + 4*C*D + 4*A*D"),
    # elements from other places
    "concatenate": (1, 0, "16*A*B"),
    "rotary": (1, 0, "8*A*B*C + 8*A*C"),
    "transpose_add": (1, 0, "12*A*B"),
    "join": (1, 0, "24*A*B"),
    "stencil": (1, 0, "4*A*A + 4*(A - 2)*(A - 2)"),
    "normalise": (1, 0, "5*A*B*B*C + 8*C"),
    # narrow and wide numbers
    "chain bf16": (1, 0, "6*A"),
    "gelu_residual bf16": (1, 0, "6*A*B + 2*B"),
    "swiglu bf16": (1, 0, "6*A"),
    "softmax bf16": (1, 0, "4*A*B"),
    "layer_norm bf16": (3, 0, "4*A*B + 20*B"),
    "var of axis 2 bf16": (1, 0, "2*A*B*C + 2*A*B"),
    "rotary bf16": (1, 0, "4*A*B*C + 4*A*C"),
    "chain f64": (1, 0, "24*A"),
    "black_scholes f64": (1, 0, "40*A"),
    "softmax f64": (1, 0, "16*A*B"),
    "mean of axis 2 f64": (1, 0, "8*A*B*C + 8*A*B"),
    "var of axis 0 f64": (1, 0, "8*A*B*C + 8*B*C"),
}

#: What of that is more than each input and each result once, and why.
MORE = {
    "cartpole": ("16*A", "which carts have failed is a kernel of its own: it has no rows"),
    "mean_square_error": ("8*((A + 1023)//1024)", "sums of blocks, which all threads make and one adds"),
    "cross_entropy": ("10*A + 16*((A + 1023)//1024)", "losses of rows, and which of them count, are summed"),
    "group_norm": (
        "32*A*C*(B//8) - 4*A*B*C + 64*(B//8) - 8*B",
        "nothing: a group of the eight has B//8 channels, and eight divides B",
    ),
    "nearest": ("8*A*A", "the distances: a least one over sums is a reduction over another domain"),
    "layer_norm bf16": ("16*B", "weights as floats: converted once, not once a row"),
}  # fmt: skip

#: What numbers for sizes change of that.
FIXED = {
    "column_sum": (524288, "with few columns and many rows, blocks of rows are summed first"),
    "cross_entropy": (-64, "4096 rows are not worth blocks"),
}

MIDDLE = 800_000  # elements, of which shapes with names are made: hardly two sizes are equal
LARGE = 1 << 22

#: Of a hundred equal parameters, three; each is four tensors.
TENSORS = {"adam_of_100": 12}


@dataclass
class Capture:
    """The loops of the graphs of a case, and what a call was given and returned."""

    texts: list[str]
    inputs: tuple[Tensor, ...]
    made: Any

    @property
    def once(self) -> int:
        """Bytes of the tensors that are given, and that are returned or changed."""
        changed = [x for x in self.inputs if x._version > 0]
        results = [self.made] if isinstance(self.made, Tensor) else list(self.made or changed)
        return sum(x.nbytes for x in (*self.inputs, *results) if x.dim())


def captured(compiler: Callable[..., Any], case: Case, elements: int, dynamic: bool) -> Capture:
    torch._dynamo.reset()
    options = {"tier": "tcc", "cache": False}
    compiled = compiler(own_code(case.call), fullgraph=True, dynamic=dynamic, options=options)
    inputs = case.arguments(elements)[: TENSORS.get(case.name)]
    with collect() as reports:
        made = compiled(*inputs)
        if case.train:
            made.sum().backward()
    return Capture([report["loops"] for report in reports], inputs, made)


def values(named: list[str], numbered: list[str]) -> dict[Expr, Expr]:
    """The numbers that the letters stand for: both graphs have the same parameters."""
    heads = [binders(texts[0].partition(") -> (")[0]).values() for texts in (named, numbered)]
    axes = zip(*([d for t in types for d in t.shape] for types in heads), strict=True)
    letter = letters(named)
    return {letter[size(name)]: dim(number) for name, number in axes if size(name) in letter}


def test_the_table_has_every_case() -> None:
    assert list(TABLE) == [case.title for case in CASES]
    assert set(MORE) | set(FIXED) <= set(TABLE)


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_case(case: Case, compiler: Callable[..., Any]) -> None:
    kernels, calls, moved = TABLE[case.title]
    more = MORE.get(case.title, ("0", ""))[0]
    named = captured(compiler, case, MIDDLE, dynamic=True).texts
    found = traffic(named)
    assert (found.kernels, len(found.calls)) == (kernels, calls)
    assert found.bytes == sympy.expand(dim(moved))
    assert found.bytes - found.least == sympy.expand(dim(more))
    numbered = captured(compiler, case, LARGE, dynamic=False)
    fixed = traffic(numbered.texts)
    assert (fixed.kernels, len(fixed.calls)) == (kernels, calls)
    assert fixed.bytes == dim(moved).subs(values(named, numbered.texts)) + FIXED.get(case.title, (0, ""))[0]
    assert case.train or fixed.least == numbered.once


def test_rows_that_are_looked_up_are_summed_side_by_side(compiler: Callable[..., Any]) -> None:
    """Where sizes are names too: along a sentence every element would be of another row of the table."""
    case = next(case for case in CASES if case.title == "embedding_sum")
    (text,) = captured(compiler, case, MIDDLE, dynamic=True).texts
    assert re.search(r"for \w+ in \w+ parallel vector {\s+let \w+: f32 = reduce sum \w+ in \w+ {", text)
