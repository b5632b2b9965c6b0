"""Calls in the bodies and conditions of loops and branches, which the program around them runs.

The calls of a condition, which stand in the body too, were numbered twice: other operators ran, or none.
An error while a second body was captured kept the operators of the first one for ever. Equal texts of a call
in a condition and of one before the loop stood for different arguments.
"""

import gc
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

import dlc.backend  # noqa: F401  (the compiler wants to know of torch)
from dlc import _C
from dlc.report import collect

START, X = torch.tensor(0), torch.eye(3) * 1.3


def large(i: Tensor, x: Tensor) -> Tensor:
    return torch.linalg.det(x) > 0.5


def large_either_way(i: Tensor, x: Tensor) -> Tensor:
    return torch.cond(
        x.sum() > 0, lambda x: torch.linalg.det(x) > 0.5, lambda x: torch.linalg.matrix_exp(x).sum() < 0, (x,)
    )


def shrinks(i: Tensor, x: Tensor) -> Any:
    return i + 1, x * 0.9


def calls(i: Tensor, x: Tensor) -> Any:
    return i + 1, torch.linalg.matrix_exp(x * 0.1) * 0.7


def calls_as_the_condition(i: Tensor, x: Tensor) -> Any:
    return i + 1, x * 0.9 + torch.linalg.det(x) * 0


def check(function: Callable[..., Any], *args: Tensor) -> None:
    torch._dynamo.reset()
    run = torch.compile(function, backend="dlc", fullgraph=True, options={"strict": True, "verify": True})
    with torch.no_grad(), collect() as reports:
        torch.testing.assert_close(run(*args), function(*args))
        torch.testing.assert_close(run(*args), function(*args))
    (report,) = reports
    for line in report["graph"].splitlines():
        call = re.search(r' = call .*target="([^"]*)"(?:.* site=(\d+))?', line.split("  @")[0])
        assert call is None or report["calls"][int(call[2] or 0)][0] == call[1]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("step", [shrinks, calls, calls_as_the_condition])
@pytest.mark.parametrize("condition", [large, large_either_way])
def test_a_condition_that_calls(condition: Any, step: Any, before: bool) -> None:
    def function(n: Tensor, x: Tensor) -> Any:
        y = torch.linalg.inv(x) if before else x.cos()
        return y, *while_loop(condition, step, (n, x))

    check(function, START, X)


@pytest.mark.parametrize("condition", [large, large_either_way])
def test_a_condition_that_calls_in_a_branch(condition: Any) -> None:
    def function(n: Tensor, x: Tensor) -> Any:
        y = torch.linalg.inv(x)
        i, z = torch.cond(
            y.sum() > 0,
            lambda n, x: while_loop(condition, calls, (n, x)),
            lambda n, x: (n + 5, torch.linalg.matrix_exp(x) + 1),
            (n, x),
        )
        return y, i, z

    check(function, START, X)
    check(function, START, -X)


def test_numbers_that_no_text_tells_apart() -> None:
    def function(n: Tensor, x: Tensor, at: Tensor) -> Any:
        y = torch.index_add(x, 0, at, x, alpha=2j)
        i, z = while_loop(
            lambda i, z: torch.index_add(z, 0, at, z, alpha=1j).imag.sum() > 3,
            lambda i, z: (i + 1, z * 0.5),
            (n, x),
        )
        return y, i, z

    check(function, START, torch.ones(2, dtype=torch.complex64), torch.tensor([0, 0]))


class Broken(GraphModule):
    """A graph that cannot be read."""

    @property
    def graph(self) -> Any:
        raise OSError("no graph")

    @graph.setter
    def graph(self, graph: Any) -> None:
        self._graph = graph


def module(function: Callable[..., Any], *args: Tensor) -> GraphModule:
    with torch.no_grad():
        return make_fx(function, tracing_mode="fake")(*args)  # type: ignore[no-any-return]


def test_what_a_first_body_calls_is_given_back_if_the_second_raises() -> None:
    operator = torch.ops.aten.linalg_matrix_exp.default
    gm = module(
        lambda p, x: torch.cond(p, lambda x: torch.linalg.matrix_exp(x), lambda x: x + 1, (x,)),
        torch.tensor(True),
        X,
    )
    assert "linalg_matrix_exp" in _C.walk(gm)
    gm.false_graph_0.__class__ = Broken
    before = sys.getrefcount(operator)
    for _ in range(10):
        with pytest.raises(OSError, match="no graph"):
            _C.walk(gm)
    gc.collect()
    assert sys.getrefcount(operator) < before + 10


def test_a_condition_of_several_elements_leaves_nothing() -> None:
    gm = module(lambda n, x: while_loop(large, calls, (n, x)), START, X)
    condition = gm.while_loop_cond_graph_0.graph
    (output,) = (node for node in condition.nodes if node.op == "output")
    (x,) = (node for node in condition.nodes if node.name == "arg1_1")
    with condition.inserting_before(output):
        many = condition.call_function(torch.ops.aten.linalg_matrix_exp.default, (x,))
        many.meta["val"] = x.meta["val"]
    output.args = ((many,),) if isinstance(output.args[0], (list, tuple)) else (many,)
    gm.while_loop_cond_graph_0.recompile()
    text = _C.walk(gm)
    assert 'target="while_loop"' in text and "linalg_matrix_exp" not in text
