"""One function captured both ways: as Dynamo gives it, and through AOTAutograd."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from dlc.report import collect
from tests.tolerance import assert_program, assert_same_bits, double

Made = tuple[list[Any], list[Any], list[dict[str, Any]]]


def run(function: Callable[..., Any], args: tuple[Any, ...], capture: str, **kwargs: Any) -> Made:
    """Results, the arguments after the call, and the reports of the graphs but for bodies of control flow."""
    torch._dynamo.reset()
    args = copy.deepcopy(args)
    options = {"strict": True, "capture": capture, "tier": "tcc"}
    with collect() as reports:
        compiled = torch.compile(function, backend="dlc", fullgraph=True, options=options, **kwargs)
        results = tree_leaves(compiled(*args))
    return results, tree_leaves(args), [r for r in reports if r["kind"] != "body"]


def storages(tensors: list[Any]) -> list[tuple[int, int] | None]:
    """Of each tensor, the first one in its storage and, if that is another, where it begins there."""
    first: dict[int, int] = {}
    found: list[tuple[int, int] | None] = []
    for k, t in enumerate(tensors):
        if isinstance(t, Tensor):
            at = first.setdefault(t.untyped_storage()._cdata, k)
            found.append((at, 0 if at == k else t.storage_offset() - tensors[at].storage_offset()))
        else:
            found.append(None)
    return found


def assert_same_results(mine: Made, theirs: Made) -> None:
    """Bits, dtypes, strides and who shares storage with whom; of the arguments as well."""
    for what in (0, 1):
        assert len(mine[what]) == len(theirs[what])
        for k, (a, b) in enumerate(zip(mine[what], theirs[what], strict=True)):
            assert type(a) is type(b)
            if isinstance(a, Tensor):
                assert_same_bits(a, b, f"{('result', 'argument')[what]} {k}")
                assert a.stride() == b.stride()
                assert a.requires_grad == b.requires_grad
            else:
                assert a == b
    assert storages(mine[1] + mine[0]) == storages(theirs[1] + theirs[0])


def assert_like_eager(function: Callable[..., Any], args: tuple[Any, ...], results: list[Any]) -> None:
    in_double = copy.deepcopy(function).double() if isinstance(function, nn.Module) else function
    eager = tree_leaves(function(*copy.deepcopy(args)))
    exact = tree_leaves(in_double(*double(copy.deepcopy(args))))
    tensors = [
        {str(k): t for k, t in enumerate(each) if isinstance(t, Tensor)} for each in (results, eager, exact)
    ]
    assert_program(*tensors)
    assert [r for r in results if not isinstance(r, Tensor)] == [
        r for r in eager if not isinstance(r, Tensor)
    ]


def check(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Taken directly, with the results that it has through AOTAutograd, and with eager's."""
    with torch.no_grad():
        mine, theirs = (run(function, args, capture, **kwargs) for capture in ("auto", "aot"))
        assert [r["kind"] for r in mine[2]] == ["direct"], mine[2][0].get("indirect")
        assert [r["kind"] for r in theirs[2]] == ["inference"]
        assert_same_results(mine, theirs)
        assert_like_eager(function, args, mine[0])


def check_indirect(function: Callable[..., Any], *args: Any, grad: bool = False, **kwargs: Any) -> str:
    """Not taken directly; the same with "auto" as with "aot", and as eager.  Returns the reason."""
    with torch.set_grad_enabled(grad):
        mine, theirs = (run(function, args, capture, **kwargs) for capture in ("auto", "aot"))
        assert mine[2][0]["kind"] in ("inference", "forward")
        assert_same_results(mine, theirs)
        after = copy.deepcopy(args)
        eager = tree_leaves(function(*after)), tree_leaves(after), []
        for a, b in zip(mine[0] + mine[1], eager[0] + eager[1], strict=True):
            torch.testing.assert_close(a, b, check_stride=True)
        assert storages(mine[1] + mine[0]) == storages(eager[1] + eager[0])
    return mine[2][0]["indirect"]
