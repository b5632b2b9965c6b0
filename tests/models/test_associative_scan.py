"""associative_scan: scans and loops of one plan, against eager.

`combine_mode="generic"` is the form that torch has for a CPU: its graph has the combine function at each
level of a tree. The operator, to which torch refers the mode "pointwise", is a scan of the language if the
combine function is one operation, else a loop.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from torch._higher_order_ops.map import map as map_each

from dlc.report import collect

from .test_control_flow import as_eager, compiled
from .test_language import backward, close, counted

pytestmark = pytest.mark.in_turn(2)

X = torch.linspace(-1, 1, 60).view(5, 4, 3).clone()
Y = X.flip(0).cos().clone()
Call = Any


def linear(left: Any, right: Any) -> Any:
    """The composition of x -> a * x + b."""
    return left[0] * right[0], left[1] * right[0] + right[1]


def generic(x: Tensor) -> Tensor:
    return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")


def reverse(x: Tensor) -> Tensor:
    return associative_scan(lambda a, b: a * b, x, 1, reverse=True, combine_mode="generic")


def last_axis(x: Tensor, y: Tensor) -> Any:
    return associative_scan(linear, (x, y), -1, combine_mode="generic")


def tree(x: Tensor, y: Tensor) -> Any:
    def combine(a: Any, b: Any) -> Any:
        return {"i": a["i"] * b["i"], "j": [a["j"][0] * b["i"] + b["j"][0]]}

    return associative_scan(combine, {"i": x, "j": [y]}, 0, reverse=True, combine_mode="generic")


def matrices(x: Tensor) -> Tensor:
    return associative_scan(lambda a, b: a @ b, x[:, :3], 0, combine_mode="generic")


def mapped(x: Tensor) -> Tensor:
    return torch.vmap(lambda x: associative_scan(torch.add, x, 0, combine_mode="generic"))(x)


def added(x: Tensor) -> Any:
    return associative_scan_op(lambda a, b: (b + a,), (x,), ())


def multiplied(x: Tensor) -> Any:
    """The result is dense in eager, and strided in torch's fake tensors."""
    return associative_scan_op(lambda a, b: (a * b,), (x.movedim(2, 0),), ())[0].contiguous()


def largest(x: Tensor) -> Any:
    return associative_scan_op(lambda a, b: (torch.maximum(a, b),), (x,), ())


def whole(x: Tensor) -> Any:
    n = (x * 10).long()
    return associative_scan_op(lambda a, b: (a + b,), (n,), ()) + associative_scan_op(
        lambda a, b: (torch.minimum(a, b).clamp(min=-3),), (n.short(),), ()
    )


def pairs(x: Tensor, y: Tensor) -> Any:
    return associative_scan_op(lambda a, b, c, d: linear((a, b), (c, d)), (x, y), ())


def reversed_pairs(x: Tensor, y: Tensor) -> Any:
    a, b = associative_scan_op(lambda a, b, c, d: linear((a, b), (c, d)), (x.flip(0), y.flip(0)), ())
    return a.flip(0), b.flip(0)


def sizes_of(x: Tensor) -> Any:
    return associative_scan_op(lambda a, b: ((a * b).abs(),), (x + 1,), ())[0].sum(0)


def strided_pairs(x: Tensor, y: Tensor) -> Any:
    return [t.contiguous() for t in pairs(x.transpose(0, 2), y[..., :3].transpose(0, 2))]


def low_precision(x: Tensor) -> Any:
    return associative_scan_op(lambda a, b: (torch.maximum(a, b),), (x.bfloat16(),), ())


def one_row(x: Tensor, y: Tensor) -> Any:
    return associative_scan_op(lambda a, b, c, d: linear((a, b), (c, d)), (x[:1], y[:1]), ())


def in_a_body(x: Tensor, y: Tensor) -> Any:
    def body(x: Tensor, y: Tensor) -> Any:
        return associative_scan_op(lambda a, b, c, d: linear((a, b), (c, d)), (x, y), ())

    return map_each(lambda xy: body(xy[0], xy[1])[1], (x, y))


CASES: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "generic": (generic, (X,)),
    "reverse": (reverse, (X,)),
    "last_axis": (last_axis, (X, Y)),
    "tree": (tree, (X, Y)),
    "matrices": (matrices, (X,)),
    "mapped": (mapped, (X,)),
    "added": (added, (X,)),
    "multiplied": (multiplied, (X,)),
    "largest": (largest, (X,)),
    "whole": (whole, (X,)),
    "pairs": (pairs, (X, Y)),
    "strided_pairs": (strided_pairs, (X, Y)),
    "reversed_pairs": (reversed_pairs, (X, Y)),
    "sizes_of": (sizes_of, (X,)),
    "low_precision": (low_precision, (X,)),
    "one_row": (one_row, (X, Y)),
    "in_a_body": (in_a_body, (X, Y)),
}
GRADIENTS = ("generic", "reverse", "last_axis", "tree", "matrices", "mapped", "added", "multiplied", "pairs")


test_as_eager = as_eager(CASES)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    function, args = CASES[name]
    run = compiled(function)
    close(backward(run, args), backward(function, args))
    counts = counted(lambda: close(backward(run, args), backward(function, args)))
    assert (counts["calls"], counts["eager_calls"]) == (2, 0)


@pytest.mark.parametrize("name, scans, loops", [("added", 1, 0), ("largest", 1, 0), ("pairs", 0, 1)])
def test_one_operation_is_a_scan_and_others_are_a_loop(name: str, scans: int, loops: int) -> None:
    function, args = CASES[name]
    with torch.no_grad(), collect() as reports:
        compiled(function)(*args)
    (report,) = reports
    assert (report["graph"].count("= scan "), report["graph"].count("= loop ")) == (scans, loops)
    assert report["calls"] == [] or all(call is None for call in report["calls"])


def test_steps_change_between_calls() -> None:
    run = compiled(pairs, dynamic=True)
    with torch.no_grad():
        for steps, n in [(5, 4), (2, 3), (31, 7)]:
            x, y = torch.rand(steps, n), torch.randn(steps, n)
            close(run(x, y), pairs(x, y))
