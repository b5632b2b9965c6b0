"""Programs whose products are dlc's own: captured in each way, by the interpreter, against eager."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._functorch.aot_autograd import aot_function
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from dlc import _C
from dlc.decompositions import decompositions
from dlc.layouts import laid_as_eager
from dlc.partition import Partitioner
from tests.capture.graphs import calls, from_numpy, graphs, interpret
from tests.tolerance import assert_program, double, strides


def own(gm: GraphModule, direct: bool = False) -> str:
    """The program of a graph, in which no product is a call."""
    text = laid_as_eager(gm, lambda: _C.walk(gm, direct, "own"))
    assert not calls(text), f"not compiled: {calls(text)}\n{text}"
    return text


def direct_graph(function: Callable[..., Any], args: Any, dynamic: bool) -> tuple[GraphModule, list[Tensor]]:
    """Dynamo's graph and the tensors that it takes, in its order."""
    found: list[tuple[GraphModule, list[Tensor]]] = []

    def backend(gm: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        found.append((gm, [t for t in inputs if isinstance(t, Tensor)]))
        return gm.forward

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    ((gm, tensors),) = found
    return gm, tensors


def number(size: Any) -> int:
    return size.node.hint if isinstance(size, torch.SymInt) else size


def promised(gm: GraphModule, results: tuple[Any, ...], like: list[Tensor]) -> list[Tensor]:
    """The results with the strides that the graph promises."""
    (output,) = gm.graph.find_nodes(op="output")
    laid = []
    for node, result, theirs in zip(tree_leaves(output.args[0]), results, like, strict=True):
        fake = node.meta.get("val", node.meta.get("example_value"))
        strides = [number(s) for s in fake.stride()]
        tensor = from_numpy(result, theirs)
        laid.append(torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor))
    return laid


def exact(function: Callable[..., Any], args: tuple[Any, ...]) -> list[Tensor]:
    wide = [t.to(torch.complex128) if isinstance(t, Tensor) and t.is_complex() else t for t in double(args)]
    return tree_leaves(function(*wide))


def real(tensors: list[Tensor]) -> dict[str, Tensor]:
    """By name; complex ones by their parts, which the rules for distances know."""
    return {str(k): torch.view_as_real(t) if t.is_complex() else t for k, t in enumerate(tensors)}


def check(
    function: Callable[..., Any],
    *args: Any,
    capture: str = "aot",
    dynamic: bool = False,
    contracts: bool = True,
) -> str:
    """As good as eager by the rule for programs that sum, and laid out as eager's.  Returns the text."""
    args = copy.deepcopy(args)
    if capture == "direct":
        gm, tensors = direct_graph(function, args, dynamic)
    else:
        (gm,) = graphs(function, *args, dynamic=dynamic)
        tensors = [t for t in args if isinstance(t, Tensor)]
    text = own(gm, capture == "direct")
    assert (" = contract " in text) == contracts, text
    with torch.no_grad():
        eager = tree_leaves(function(*args))
        truth = exact(function, args)
    mine = promised(gm, interpret(text, *tensors), eager)
    if any(t.dtype in (torch.float64, torch.complex128) for t in eager):
        for a, b in zip(mine, eager, strict=True):
            assert strides(a) == strides(b)
            torch.testing.assert_close(a, b, equal_nan=True)
    else:
        assert_program(real(mine), real(eager), real(truth))
    return text


def check_gradients(function: Callable[..., Any], *args: Tensor, budget: float = 1.0) -> list[str]:
    """Forward and backward of a joint graph that dlc cuts compute what it does.  Returns the texts."""
    texts: list[str] = []

    def compiler(gm: GraphModule, _: list[Any]) -> Callable[..., Any]:
        text = own(gm)
        texts.append(text)

        def run(*inputs: Any) -> Any:
            outputs = gm.forward(*inputs)
            (output,) = gm.graph.find_nodes(op="output")
            by_node = dict(zip(tree_leaves(output.args[0]), tree_leaves(outputs), strict=True))
            wanted = [
                t for t in by_node.values() if isinstance(t, Tensor)
            ]  # one result, however often returned
            made = interpret(text, *(t for t in inputs if isinstance(t, Tensor)))
            for mine, theirs in zip(made, wanted, strict=True):
                torch.testing.assert_close(from_numpy(mine, theirs), theirs.detach().contiguous())
            return outputs

        return make_boxed_func(run)

    partitioner = Partitioner(budget, -1, "own")
    compiled = aot_function(
        function, fw_compiler=compiler, bw_compiler=compiler, decompositions=decompositions(),
        partition_fn=partitioner, keep_inference_input_mutations=True,
    )  # fmt: skip
    result = compiled(*(t.detach().clone().requires_grad_(t.is_floating_point()) for t in args))
    sum(t.sum() for t in tree_leaves(result)).backward()
    assert len(texts) == 2 and " = contract " in texts[0]
    assert "error" not in partitioner.summary, partitioner.summary
    return texts
