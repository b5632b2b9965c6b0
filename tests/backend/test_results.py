"""What a call gives back: values, strides, aliasing, freshness and mutation, as eager has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

TIERS = ["tcc", "gcc"]


def compiled(fn: Callable[..., Any], tier: str = "tcc", **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend="dlc", options={"tier": tier, "strict": True, **options})


def storage(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()


@pytest.mark.parametrize("tier", TIERS)
def test_pointwise_chain(tier: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.where(x > y, torch.tanh(x) * y, torch.exp(-x.abs()) + y)

    x, y = torch.randn(37, 65), torch.randn(65)
    torch.testing.assert_close(compiled(fn, tier)(x, y), fn(x, y))


@pytest.mark.parametrize("tier", TIERS)
def test_softmax_and_layer_norm(tier: str) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.softmax(x, -1), torch.nn.functional.layer_norm(x, (257,), w)

    x, w = torch.randn(19, 257), torch.randn(257)
    torch.testing.assert_close(compiled(fn, tier)(x, w), fn(x, w))


def test_strides_are_those_of_eager() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y, y.t(), (x * 2).t().contiguous(), x.t() * 3

    x = torch.randn(5, 7)
    for got, want in zip(compiled(fn)(x), fn(x), strict=True):
        assert got.stride() == want.stride()
        torch.testing.assert_close(got, want)


def test_channels_last_stays() -> None:
    x = torch.randn(2, 3, 5, 7).to(memory_format=torch.channels_last)
    got = compiled(lambda x: torch.relu(x) + 1)(x)
    assert got.stride() == x.stride()
    torch.testing.assert_close(got, torch.relu(x) + 1)


def test_outputs_that_share_storage_share_it() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + 1
        return y.t(), y.view(-1)

    a, b = compiled(fn)(torch.randn(3, 4))
    assert storage(a) == storage(b)
    b.zero_()
    assert not a.any()


def test_a_view_of_an_input_is_a_view() -> None:
    x = torch.randn(4, 6)
    got = compiled(lambda x: (x[1:, ::2], x.sin()))(x)[0]
    assert storage(got) == storage(x)
    assert got.storage_offset() == 6 and got.stride() == (6, 2)


def test_outputs_are_fresh() -> None:
    fn = compiled(lambda x: (x + 0.0, x * 1, x.clone()))
    x = torch.randn(8)
    outs = fn(x)
    assert len({storage(t) for t in (x, *outs)}) == 4
    again = fn(x)
    assert not {storage(t) for t in outs} & {storage(t) for t in again}


def test_the_same_value_twice_is_one_tensor() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.exp()
        return y, y

    a, b = compiled(fn)(torch.randn(4))
    assert storage(a) == storage(b)


def test_inputs_are_written_in_place() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y).mul_(2)
        return x.sum() + y.sum()

    x, y = torch.randn(6, 5), torch.randn(6, 5)
    want_x = x.clone()
    want = fn(want_x, y)
    version = x._version
    got = compiled(fn)(x, y)
    torch.testing.assert_close(x, want_x)
    torch.testing.assert_close(got, want)
    assert x._version > version


def test_two_inputs_change_places() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> None:
        t = x.clone()
        x.copy_(y)
        y.copy_(t)

    x, y = torch.arange(5.0), torch.arange(5.0) + 10
    compiled(fn)(x, y)
    assert x.tolist() == [10, 11, 12, 13, 14] and y.tolist() == [0, 1, 2, 3, 4]


def test_the_log_of_an_input_that_is_then_changed() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = torch.log(x)
        x.log_()
        return y

    x = torch.rand(9) + 1
    want = torch.log(x)
    torch.testing.assert_close(compiled(fn)(x), want)
    torch.testing.assert_close(x, want)


def test_strided_inputs_of_any_offset() -> None:
    base = torch.randn(100)
    fn = compiled(lambda x: x * 2 + 1)
    for offset in (0, 1, 3, 7):
        x = base[offset : offset + 90 : 3]
        torch.testing.assert_close(fn(x), x * 2 + 1)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (1,), (1, 1), ()])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    torch.testing.assert_close(compiled(lambda x: (x.exp(), x.sum()))(x), (x.exp(), x.sum()))


def test_gradients() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ w).softmax(-1).pow(2).sum()

    x = torch.randn(6, 5, requires_grad=True)
    w = torch.randn(5, 7, requires_grad=True)
    want = torch.autograd.grad(fn(x, w), (x, w))
    got = torch.autograd.grad(compiled(fn)(x, w), (x, w))
    torch.testing.assert_close(got, want)


def test_one_kernel_for_all_sizes() -> None:
    import dlc

    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        return torch.softmax(x * n, -1).sum(0)

    f = compiled(fn)
    f(torch.randn(3, 10), 2)
    f(torch.randn(4, 11), 3)
    graphs = dlc.counters()["graphs"]
    for rows, columns, n in [(5, 8, 4), (7, 9, 5), (130, 1030, 6)]:
        x = torch.randn(rows, columns)
        torch.testing.assert_close(f(x, n), fn(x, n))
    assert dlc.counters()["graphs"] == graphs


def test_one_value_fresh_and_as_a_view() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.expand(3, 4) + 0, x.expand(3, 4), x.expand(3, 4).clone()

    x = torch.randn(4)
    got = compiled(fn)(x)
    torch.testing.assert_close(got, fn(x), check_stride=True)
    assert storage(got[1]) == storage(x)
    assert len({storage(t) for t in got}) == 3


def test_views_and_the_whole_in_any_order() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y[1:], y, y[:, ::2], y.t().reshape(-1)

    x = torch.randn(4, 6)
    got, want = compiled(fn)(x), fn(x)
    torch.testing.assert_close(got, want, check_stride=True)
    assert [t.storage_offset() for t in got] == [t.storage_offset() for t in want]
    assert storage(got[0]) == storage(got[1]) == storage(got[2]) != storage(got[3])


def test_constants_are_fresh() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.ones(3), torch.arange(4), torch.tensor([1, 2]), torch.tensor(3.0)

    f, x = compiled(fn), torch.randn(4)
    for t in f(x):
        t.zero_()
    torch.testing.assert_close(f(x), fn(x))


def test_an_input_that_is_an_output() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.add_(1)
        return x, x.t(), x * 2

    x = torch.randn(4, 4)
    want = fn(x.clone())
    got = compiled(fn)(x)
    torch.testing.assert_close(got, want, check_stride=True)
    assert got[0] is x and storage(got[1]) == storage(x)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.copy_(x.flip(0)),
        lambda x: x.copy_(x.t() + 1),
        lambda x: x.copy_(torch.softmax(x, 0)),
        lambda x: x[1:].mul_(x[:-1].clone()),
        lambda x: x[:, 0].fill_(5),
        lambda x: x.copy_(x.int()),
    ],
    ids=["flip", "transpose", "softmax", "shift", "column", "cast"],
)
def test_an_input_changed_from_itself(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        change(x)
        return x * 2

    base = torch.randn(600, 300)
    for part in (slice(0, 600, 2), slice(3, 303)):
        x, want_x = base.clone()[part], base.clone()[part]
        want = fn(want_x)
        torch.testing.assert_close(compiled(fn)(x), want)
        torch.testing.assert_close(x, want_x)


def test_two_inputs_change_places_through_calls_that_alias_them() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> None:
        a, b = x.unfold(0, 4, 1)[0].clone(), y.unfold(0, 4, 1)[0].clone()
        x.copy_(b)
        y.copy_(a)

    x, y = torch.randn(4, 4), torch.randn(4, 4)
    a, b = x.t().clone(), y.t().clone()
    compiled(fn)(x, y)
    torch.testing.assert_close((x, y), (b, a))


def test_copy_on_write() -> None:
    x = torch.randn(4)
    before, lazy = x.clone(), torch._lazy_clone(x)
    compiled(lambda x: x.add_(1))(lazy)
    torch.testing.assert_close((x, lazy), (before, before + 1))


def test_random_operators_keep_the_stream_of_eager() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    f, x = compiled(fn), torch.randn(50)
    torch.manual_seed(0)
    got = f(x)
    torch.manual_seed(0)
    torch.testing.assert_close(got, fn(x))
