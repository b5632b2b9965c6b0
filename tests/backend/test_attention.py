"""Attention of dlc's own, compiled: the same bits however it runs, rows that see nothing, heads in groups."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc.report import collect
from tests.backend.jitted import jit
from tests.tolerance import assert_program, assert_same_bits, double

OWN: dict[str, Any] = {"products": "own", "tier": "tcc", "strict": True}


def repeated(x: Tensor, times: int) -> Tensor:
    b, h, s, d = x.shape
    return x[:, :, None].expand(b, h, times, s, d).reshape(b, h * times, s, d)


def by_hand(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """As models write it, with the heads of keys repeated."""
    scores = q @ repeated(k, 3).mT * 0.25 + mask
    return (torch.softmax(scores, -1) @ repeated(v, 3)).transpose(1, 2).flatten(2)


def by_batches(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """With batches and heads as one axis."""
    b, h, t, d = q.shape
    k, v = (repeated(x, 3).reshape(b * h, -1, d) for x in (k, v))
    scores = torch.baddbmm(mask.flatten(0, 1), q.reshape(b * h, t, d), k.mT, alpha=0.25)
    return torch.bmm(torch.softmax(scores, -1), v).view(b, h, t, d).transpose(1, 2).flatten(2)


def by_torch(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return (
        F.scaled_dot_product_attention(q, k, v, mask, scale=0.25, enable_gqa=True).transpose(1, 2).flatten(2)
    )


def plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, mask)


FORMS = (by_hand, by_batches, by_torch)


def operands(t: int = 5, s: int = 37, batches: int = 2) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    q, k, v = (torch.randn(batches, n, h, 8).transpose(1, 2) for n, h in ((t, 6), (s, 2), (s, 2)))
    mask = torch.randn(batches, 6, t, s)
    mask = torch.where(mask < -1, -torch.inf, mask)
    return q, k, v, mask


def assert_as_eager(actual: list[Tensor], eager: list[Tensor], exact: list[Tensor]) -> None:
    assert_program(*({str(k): t for k, t in enumerate(ts)} for ts in (actual, eager, exact)))


@pytest.mark.parametrize("form", FORMS)
def test_heads_are_not_repeated(form: Callable[..., Tensor], compiler: Callable[..., Any]) -> None:
    """However it is written, the heads of queries that share a key's are rows of one product."""
    args = operands()
    with collect() as reports, torch.no_grad():
        actual = compiler(form, options=OWN)(*args)
    (report,) = reports
    assert report["kernels"].count('over="bcmpk,') == 2
    assert_as_eager([actual], [form(*args)], [form(*double(args))])


@pytest.mark.in_turn(3)
def test_same_bits_however_it_runs(compiler: Callable[..., Any]) -> None:
    """In both tiers, on one thread and two, for any sizes, and batches apart."""
    args, threads = operands(batches=4), torch.get_num_threads()
    results: list[Tensor] = []
    for tier in ("tcc", "gcc"):
        torch._dynamo.reset()
        compiled = compiler(by_torch, options=OWN | {"tier": tier})
        with torch.no_grad(), collect() as reports:
            for other in (operands(4, 20, batches=3), operands(6, 21)):
                compiled(*other)
            for count in (1, 2):
                torch.set_num_threads(count)
                results.append(compiled(*args))
                results.append(torch.cat([compiled(*(t[k : k + 2] for t in args)) for k in (0, 2)]))
            torch.set_num_threads(threads)
        assert not any(report["calls"] for report in reports)
    for result in results[1:]:
        assert_same_bits(result, results[0])


@pytest.mark.parametrize("form", [by_hand, by_torch])
def test_gradients_and_rows_that_see_nothing(
    form: Callable[..., Tensor], compiler: Callable[..., Any]
) -> None:
    q, k, v, mask = operands()
    if form is by_torch:
        mask[0, 1, 2] = -torch.inf

    def results(function: Callable[..., Tensor], *args: Tensor) -> list[Tensor]:
        leaves = [t.clone().requires_grad_() for t in args]
        result = function(*leaves, mask.to(args[0].dtype))
        weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view_as(result)
        return [result.detach(), *torch.autograd.grad(result, leaves, weights)]

    with collect() as reports:
        actual = results(compiler(form, options=OWN), q, k, v)
    assert [report["calls"] for report in reports] == [[], []]
    assert_as_eager(actual, results(form, q, k, v), results(form, *double((q, k, v))))


def test_jit(capfd: pytest.CaptureFixture[str]) -> None:
    """Of a function of queries, keys and values, whose sizes are all names."""
    q, k, v, mask = operands()
    args = q, repeated(k, 3), repeated(v, 3), mask
    actual = jit(plain, products="own", dump="fuse")(*args)
    assert " call " not in capfd.readouterr().err
    assert_as_eager([actual], [plain(*args)], [plain(*double(args))])
