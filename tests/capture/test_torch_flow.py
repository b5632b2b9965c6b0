"""torch's own samples of control flow, which are in torch/testing/_internal/hop_db.py: as eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import TorchDynamoException
from torch.testing._internal.hop_db import hop_db
from torch.utils import _pytree as pytree

NAMES = ["scan", "map", "cond", "while_loop", "while_loop_stack_output", "invoke_subgraph"]
#: Operators of higher order that are no control flow: their bodies are kernels, hooks or quantised products.
OTHERS = [
    *(
        "invoke_quant",
        "invoke_quant_packed",
        "auto_functionalize",
        "flex_attention",
        "flex_attention_backward",
    ),
    *("local_map_hop", "register_hook", "inline_asm_elementwise"),
]
ENTRIES = [op for op in hop_db if op.name in NAMES]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool]


def copies(args: list[Any]) -> list[Any]:
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.detach().clone().requires_grad_(t.requires_grad), args
    )


def results(fn: Callable[..., Any], args: list[Any]) -> list[torch.Tensor | None]:
    """What the function returns, and the gradients of what it takes."""
    args = copies(args)
    out = [t for t in pytree.tree_leaves(fn(*args)) if isinstance(t, torch.Tensor)]
    needed = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not needed:
        return out
    sums = [t.double().sum() for t in out if t.requires_grad]
    return [*out, *torch.autograd.grad(sums, needed, allow_unused=True)]


def same(fn: Callable[..., Any], args: list[Any]) -> None:
    torch._dynamo.reset()
    options = {"tier": "tcc", "strict": True}
    compiled = torch.compile(fn, backend="dlc", fullgraph=True, options=options)
    try:
        want = results(fn, args)
    except RuntimeError as error:  # a body that changes a dtype, or multiplies matrices of bools
        with pytest.raises(type(error)):
            results(compiled, args)
        return
    try:
        got = results(compiled, args)
    except TorchDynamoException as error:  # eager's while_loop_stack_output takes a body that changes a dtype
        with pytest.raises(type(error)):
            results(torch.compile(fn, backend="eager", fullgraph=True), args)
        return
    for a, b in zip(want, got, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(b, a)


def test_the_entries_are_those_of_torch() -> None:
    assert {op.name for op in hop_db} - set(OTHERS) == set(NAMES)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", ENTRIES, ids=lambda op: f"{op.name}-{op.variant_test_name}")
def test_samples(op: Any, dtype: torch.dtype) -> None:
    for grad in [False, True] if dtype.is_floating_point else [False]:
        for sample in op.sample_inputs("cpu", dtype, requires_grad=grad):
            same(op.op, [sample.input, *sample.args])
