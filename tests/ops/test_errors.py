"""Inputs that eager refuses: the compiled module raises eager's error. The sweep does so with operators.

What Dynamo itself raises while it runs the operator on fake tensors is Dynamo's with every backend: an
error that is not eager's has to be the one that aot_eager raises. tests/ops/check.py says when one is as
good as eager's.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import ModuleErrorEnum, ModuleInfo, module_db

from tests.ops.check import SEED, unlike


def refused(info: ModuleInfo) -> list[Any]:
    """The inputs of a module that its forward refuses."""
    torch.manual_seed(SEED)
    if info.module_error_inputs_func is None:
        return []
    made = info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
    )
    return [e.module_error_input for e in made if e.error_on == ModuleErrorEnum.FORWARD_ERROR]


def error_of(info: ModuleInfo, sample: Any, compiler: Callable[..., Any]) -> Exception | None:
    torch._dynamo.reset()
    torch.manual_seed(SEED)
    module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    try:
        compiler(module)(*sample.forward_input.args, **sample.forward_input.kwargs)
    except Exception as error:
        return error
    return None


REFUSED = [(info, k) for info in module_db for k in range(len(refused(info)))]


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("info", "k"), REFUSED, ids=[f"{i.formatted_name}-{k}" for i, k in REFUSED])
def test_modules(info: ModuleInfo, k: int, dynamic: bool, compiler: Callable[..., Any]) -> None:
    sample = refused(info)[k]
    theirs = error_of(info, sample, lambda module: module)
    assert theirs is not None
    mine = error_of(info, sample, lambda module: compiler(module, dynamic=dynamic))
    if reason := unlike(mine, theirs):
        peer = error_of(info, sample, lambda m: torch.compile(m, backend="aot_eager", dynamic=dynamic))
        assert reason == unlike(peer, theirs)
