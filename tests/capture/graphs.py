"""From functions to graphs as AOTAutograd gives them, to text, to numbers."""

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._functorch.aot_autograd import aot_function
from torch.fx import GraphModule

import dlc
import dlc.backend  # the walk reads tensors by what this sets up
from dlc import _C
from dlc.decompositions import decompositions
from dlc.layouts import laid_as_eager


def graphs(
    function: Callable[..., Any], *args: Tensor, dynamic: bool = False, backward: bool = False
) -> list[GraphModule]:
    """The graphs of a function: one, or the forward and the backward one."""
    found: list[GraphModule] = []

    def compiler(gm: GraphModule, _: list[Any]) -> Callable[..., Any]:
        found.append(gm)
        return make_boxed_func(gm.forward)

    compiled = aot_function(
        function, fw_compiler=compiler, bw_compiler=compiler, inference_compiler=compiler,
        decompositions=decompositions(), keep_inference_input_mutations=True, dynamic=dynamic,
    )  # fmt: skip
    with torch.set_grad_enabled(backward):
        result = compiled(*copy.deepcopy(args))
    if backward:
        result.sum().backward()
    return found


def text_of(function: Callable[..., Any], *args: Tensor, dynamic: bool = False) -> str:
    """The IR text of the one graph of a function without gradients."""
    (gm,) = graphs(function, *args, dynamic=dynamic)
    return laid_as_eager(gm, lambda: _C.walk(gm))


def calls(text: str) -> list[str]:
    return re.findall(r'target="([^"]*)"', text)


def to_numpy(t: Tensor) -> np.ndarray[Any, Any]:
    """NumPy has no bfloat16: its bits, as the interpreter takes them."""
    t = t.detach()
    return t.view(torch.int16).numpy().view(np.uint16) if t.dtype == torch.bfloat16 else t.numpy()


def from_numpy(a: Any, like: Tensor) -> Tensor:
    a = np.array(a)
    bits = like.dtype == torch.bfloat16
    return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if bits else torch.from_numpy(a)


def interpret(text: str, *args: Tensor) -> tuple[Any, ...]:
    """The results of a program by the reference interpreter, as arrays."""
    results = dlc.ir.parse(text)(*(to_numpy(a) for a in args))
    return results if isinstance(results, tuple) else (results,)


def check(function: Callable[..., Any], *args: Tensor, dynamic: bool = False, **tolerance: Any) -> str:
    """The function is compiled whole, and its program computes what it computes.  Returns the text."""
    text = text_of(function, *args, dynamic=dynamic)
    assert not calls(text), f"not compiled: {calls(text)}"
    with torch.no_grad():
        eager = function(*(a.clone() for a in args))
    eager = eager if isinstance(eager, (tuple, list)) else (eager,)
    results = interpret(text, *(a.clone() for a in args))[-len(eager) :]
    for mine, theirs in zip(results, eager, strict=True):
        torch.testing.assert_close(from_numpy(mine, theirs), theirs, equal_nan=True, **tolerance)
    return text
