"""docs/operators.md is what the tables and the probes say now."""

import torch

from dlc import _C
from tests.ops.page import ARGUMENTS, CLASSES, PAGE, core, outcome, short, text


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == text(), "python -m tests.ops.page"


def test_every_core_overload_runs_in_eager_for_some_dtype() -> None:
    """An overload whose arguments were wrong would pass for one that eager refuses."""
    dark = [short(op) for op in core() if not any(outcome(op, d) for c in CLASSES.values() for d in c[:1])]
    assert dark == []


def test_arguments_are_of_core_overloads() -> None:
    assert set(ARGUMENTS) <= {short(op) for op in core()}


def test_outcomes() -> None:
    """One of each kind, so that the page cannot say one thing of all."""
    exp, mm, sort, rand, neg = (
        torch.ops.aten.exp.default, torch.ops.aten.mm.default, torch.ops.aten.sort.default,
        torch.ops.aten.rand.default, torch.ops.aten.neg.default,
    )  # fmt: skip
    assert outcome(exp, torch.float32) == "compiled" and str(exp) in _C.overloads()
    assert outcome(mm, torch.float32) == "compiled" and outcome(mm, torch.complex64) == "library"
    assert outcome(sort, torch.float32) == "library"
    assert outcome(rand, torch.float32) == "eager"
    assert outcome(neg, torch.bool) == ""
