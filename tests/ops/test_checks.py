"""What eager refuses is refused in eager's words, and nothing else: tests/ops/checks has the programs.

What Dynamo raises itself, while it runs the operator on fake tensors, is Dynamo's with every backend: an
error that is not eager's has to be the one that aot_eager raises. A check that aot_eager loses has to be made
all the same.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ops.check import first_line, unlike
from tests.ops.checks import Check, checks, of, reals
from tests.ops.checks.losses import IN_PLACE

Compiler = Callable[..., Any]
MODES = pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])


def error_of(function: Callable[..., Any], inputs: tuple[Any, ...], gradients: bool) -> Exception | None:
    """What a call raises, or the backward of the sum of its results."""
    leaves = [leaf(t, gradients) for t in inputs]
    try:
        results = function(*leaves)
        results = results if isinstance(results, tuple | list) else [results]
        wanted = [t.abs().sum() for t in results if isinstance(t, Tensor) and t.requires_grad]
        if wanted:
            torch.stack(wanted).sum().backward()
    except Exception as error:
        return error
    return None


def leaf(value: Any, gradients: bool) -> Any:
    if not isinstance(value, Tensor):
        return value
    derived = gradients and (value.is_floating_point() or value.is_complex())
    return value.detach().clone().requires_grad_(derived)


def compare(check: Check, compiler: Compiler, dynamic: bool, gradients: bool) -> None:
    function = check.function()
    theirs = error_of(function, check.inputs, gradients)
    torch._dynamo.reset()
    mine = error_of(compiler(function, dynamic=dynamic), check.inputs, gradients)
    if check.taken:
        assert theirs is None and mine is None, (theirs, mine)
        return
    assert theirs is not None, "eager takes it"
    assert mine is not None, f"the check is lost: {first_line(theirs)}"
    if unlike(mine, theirs) is not None:
        torch._dynamo.reset()
        other = torch.compile(function, backend="aot_eager", dynamic=dynamic)
        peer = error_of(other, check.inputs, gradients)
        assert peer is not None and unlike(mine, theirs) == unlike(peer, theirs)


@pytest.mark.in_turn(12)
@MODES
@pytest.mark.parametrize("gradients", [False, True], ids=["inference", "gradients"])
@pytest.mark.parametrize("check", checks(), ids=str)
def test_checks(check: Check, gradients: bool, dynamic: bool, compiler: Compiler) -> None:
    compare(check, compiler, dynamic, gradients)


@MODES
@pytest.mark.parametrize("check", IN_PLACE, ids=str)
def test_checks_of_backwards(check: Check, dynamic: bool, compiler: Compiler) -> None:
    compare(check, compiler, dynamic, gradients=True)


# ---- dtypes ----

SAMPLES = [
    of(0.0, 1.0).bool(), torch.tensor([1, 2], dtype=torch.uint8), torch.tensor([1, 2], dtype=torch.int32),
    torch.tensor([1, 2]), reals(2).half(), reals(2).bfloat16(), reals(2), reals(2).cfloat(),
]  # fmt: skip


def of_tensors() -> list[str]:
    """The overloads that dlc has builders of and that one or two tensors alone suffice for."""
    from dlc import _C

    names = [name for name in _C.overloads() if name.startswith("aten.")]
    return [name for name in names if 0 < tensors_of(name) < 3]


def overload_of(name: str) -> Any:
    _, packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def tensors_of(name: str) -> int:
    """How many arguments without a default there are, all of them tensors; 0: another one is wanted."""
    wanted = [a for a in overload_of(name)._schema.arguments if not a.has_default_value()]
    return len(wanted) if all(str(a.type) == "Tensor" for a in wanted) else 0


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", of_tensors())
def test_dtypes(name: str, compiler: Compiler) -> None:
    """A dtype, or a pair of them, is taken exactly if eager's kernel takes it."""
    operator, count = overload_of(name), tensors_of(name)
    pairs = [[t] for t in SAMPLES] if count == 1 else [[t, u] for t in SAMPLES for u in (t, SAMPLES[6])]

    def function(*operands: Tensor) -> Any:
        return operator(*operands)

    for operands in pairs:
        theirs = error_of(function, tuple(operands), gradients=False)
        torch._dynamo.reset()
        mine = error_of(compiler(function), tuple(operands), gradients=False)
        assert (mine is None) == (theirs is None), (operands, theirs, mine)
