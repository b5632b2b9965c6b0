"""A function compiled whole and run, against eager."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from dlc.report import collect
from tests.tolerance import assert_program, assert_same_bits, double

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
ASSERTIONS = ("aten._assert_async.msg",)  # torch's decompositions make them; they have to raise
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def check_whole(
    function: Callable[..., Any], *args: Any, dynamic: bool = False, exact: bool = False, **options: Any
) -> None:
    """No part is a call, assertions apart; the results have eager's bits (`exact`) or are as good."""
    torch._dynamo.reset()
    with collect() as reports, torch.no_grad():
        options = {"strict": True, "tier": "tcc"} | options
        compiled = torch.compile(function, backend="dlc", fullgraph=True, dynamic=dynamic, options=options)
        mine = tree_leaves(compiled(*copy.deepcopy(args)))
    assert [r.get("error") for r in reports] == [None]
    assert [call[0] for r in reports for call in r["calls"] if call[0] not in ASSERTIONS] == []
    if "capture" in options:
        direct = [r["kind"] == "direct" for r in reports]
        assert direct == [options["capture"] == "direct"]
    theirs = tree_leaves(function(*copy.deepcopy(args)))
    assert len(mine) == len(theirs)
    if exact:
        for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            assert_same_bits(a, b, f"result {k}")
            assert a.stride() == b.stride()
        return
    if any(t.dtype == torch.float64 for t in theirs):  # which has no exact result to be held to
        return torch.testing.assert_close(mine, theirs, equal_nan=True)
    truth = tree_leaves(function(*double(copy.deepcopy(args))))
    named = [{str(k): t for k, t in enumerate(list_)} for list_ in (mine, theirs, truth)]
    assert_program(*named)


def spread(tree: Any) -> Any:
    """The same tensors at every second place of larger ones, turned around."""

    def one(t: Any) -> Any:
        if not isinstance(t, Tensor):
            return t
        wide = torch.empty([2 * n for n in reversed(t.shape)], dtype=t.dtype)
        view = wide[tuple(slice(None, None, 2) for _ in t.shape)].permute(tuple(reversed(range(t.dim()))))
        return view.copy_(t)

    return tree_map(one, tree)
