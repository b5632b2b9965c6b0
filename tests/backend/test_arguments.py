"""What goes in: scalars, sizes, offsets, many arguments, ranks, modes; and what the plan does not fit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import dlc
from dlc import _C

from .test_results import compiled


def assert_same(fn: Callable[..., Any], f: Callable[..., Any], *args: Any) -> None:
    torch.testing.assert_close(f(*args), fn(*args), check_stride=True, equal_nan=True)


def captured(fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """fn's graph for these arguments, compiled without Dynamo's guards in front of it."""
    import dlc.backend  # noqa: F401 - finds torch's functions

    graph = make_fx(fn, tracing_mode="fake")(*args)
    return _C.compile(graph, graph.forward, tier="tcc", **options)


def test_a_size_as_a_tensor() -> None:
    def fn(x: Tensor) -> tuple[Tensor, ...]:
        n = torch.scalar_tensor(x.shape[0], dtype=torch.int64)
        return n, torch.full((), x.shape[0]), torch.full((), x.shape[0]).expand(3), x * n

    f = compiled(fn)
    for n in (3, 4, 5):
        assert_same(fn, f, torch.randn(n))


def test_a_size_as_an_operand_of_a_call() -> None:
    def fn(x: Tensor) -> tuple[Tensor, ...]:
        n = torch.scalar_tensor(x.shape[0], dtype=torch.int64)
        return torch.ops.aten.gcd(n, n * 2), n, torch.linalg.inv(x * n + torch.eye(x.shape[0]))

    f = compiled(fn)
    for n in (3, 4, 5):
        assert_same(fn, f, torch.rand(n, n))


def test_a_size_written_to_an_input() -> None:
    def fn(x: Tensor, count: Tensor) -> Tensor:
        count.fill_(x.shape[0])
        return x + 1

    f, count = compiled(fn), torch.tensor(0)
    for n in (3, 4, 5):
        f(torch.randn(n), count)
        assert count.item() == n


def test_numbers_in_and_out() -> None:
    def fn(x: Tensor, s: float, n: int) -> tuple[Any, ...]:
        return x * s + n, s * 2, n * 2 + 1, x.shape[0] // 2, None, 3, 2.5, True, "text"

    f = compiled(fn)
    for s, n in ((1.5, 3), (2.5, 4), (-0.0, 5)):
        assert_same(lambda *a: fn(*a)[0], lambda *a: f(*a)[0], torch.ones(n + 3), s, n)
        assert f(torch.ones(n + 3), s, n)[1:] == fn(torch.ones(n + 3), s, n)[1:]


@pytest.mark.parametrize("n", [0, -5, 2**40, 2**62])
def test_integers_of_any_size(n: int) -> None:
    def fn(x: Tensor, n: int) -> Tensor:
        return x + n

    f = compiled(fn)
    for k in (3, 4, n):
        assert_same(fn, f, torch.arange(4), k)


def test_a_float_that_only_a_call_takes() -> None:
    def fn(x: Tensor, s: float) -> Tensor:
        return torch.renorm(x, 2.0, 0, s)

    f = compiled(fn)
    for s in (0.5, 1.5, 2.5):
        assert_same(fn, f, torch.randn(4, 4), s)


def test_more_inputs_buffers_and_results_than_fit_on_the_stack() -> None:
    def fn(*xs: Tensor) -> tuple[Tensor, ...]:
        total = xs[0]
        for x in xs[1:]:
            total = total + x
        return (total, *(x * 2 + total for x in xs))

    assert_same(fn, compiled(fn), *(torch.randn(7, 3) for _ in range(90)))


def test_a_call_with_many_operands() -> None:
    def fn(*xs: Tensor) -> Tensor:
        return torch.block_diag(*(x + 1 for x in xs)) + torch.linalg.multi_dot(xs[:3])[0, 0]

    assert_same(fn, compiled(fn), *(torch.randn(3, 3) for _ in range(30)))


@pytest.mark.parametrize("rank", [16, 18])
def test_ranks(rank: int) -> None:
    torch._dynamo.reset()

    def fn(x: Tensor) -> Tensor:
        return (x.sin() + 1).sum(3)

    f = torch.compile(fn, backend="dlc", options={"strict": rank <= 16})
    assert_same(fn, f, torch.randn(*[2] * rank))


def test_no_outputs() -> None:
    def fn(x: Tensor, y: Tensor) -> None:
        x.copy_(y + 1)

    x = torch.zeros(4)
    assert compiled(fn)(x, torch.ones(4)) is None
    assert x.tolist() == [2, 2, 2, 2]


def test_inference_mode_and_grad_mode() -> None:
    weight = torch.randn(4, 4, requires_grad=True)

    def fn(x: Tensor) -> Tensor:
        return torch.linalg.cholesky(x @ x.t() + weight.abs().sum() * torch.eye(4)) + 1

    f, x = compiled(fn), torch.randn(4, 4)
    assert f(x).requires_grad
    with torch.no_grad():
        assert not f(x).requires_grad
    with torch.inference_mode():
        assert f(x).is_inference()


def test_grad_mode_is_restored_after_an_error() -> None:
    call = captured(lambda x: torch.linalg.cholesky(x) + 1, torch.eye(3))
    for on in (True, False):
        with torch.set_grad_enabled(on):
            call([torch.eye(3)])
            assert torch.is_grad_enabled() == on
            with pytest.raises(torch._C._LinAlgError):
                call([-torch.eye(3)])
            assert torch.is_grad_enabled() == on


def test_an_index_out_of_range_names_the_line() -> None:
    def fn(w: Tensor, i: Tensor) -> Tensor:
        return w.exp() + torch.nn.functional.embedding(i, w).sum(0)

    f, w = compiled(fn), torch.randn(10, 4)
    for bad in (-11, 20):
        with pytest.raises(IndexError, match=r"index out of range in self: in embedding, test_arguments\.py"):
            f(w, torch.tensor([1, bad]))
    assert_same(fn, f, w, torch.tensor([1, 2]))


def test_the_list_is_emptied_also_by_an_error() -> None:
    call = captured(lambda x: torch.linalg.cholesky(x) + 1, torch.eye(3))
    args = [torch.eye(3)]
    call(args)
    assert args == []
    args = [-torch.eye(3)]
    with pytest.raises(torch._C._LinAlgError):
        call(args)
    assert args == []
    with pytest.raises(TypeError, match="takes 1 arguments, not 2"):
        call([torch.eye(3), torch.eye(3)])


@pytest.mark.parametrize(
    "other",
    [
        torch.randn(5, 4),
        torch.randn(4, 4).t(),
        torch.randn(4),
        torch.randn(4, 4, dtype=torch.float64),
        torch.randn(4, 4).to_sparse(),
        torch.nn.Parameter(torch.randn(6, 4)),
    ],
    ids=["sizes", "strides", "rank", "dtype", "layout", "parameter"],
)
def test_arguments_other_than_captured_run_the_graph_itself(other: Tensor) -> None:
    call = captured(lambda x: x * 2, torch.randn(4, 4))
    before = dlc.counters()["eager_calls"]
    got = call([other])[0]
    assert dlc.counters()["eager_calls"] == before + 1
    torch.testing.assert_close(got, other * 2)


def test_what_is_not_a_tensor_is_an_error() -> None:
    call = captured(lambda x: x.sin(), torch.randn(4, 4))
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor'"):
        call(["text"])
    with pytest.raises(TypeError, match="keyword"):
        call(x=torch.ones(4, 4))


def test_a_thread_that_torch_has_not_seen() -> None:
    def fn(x: Tensor) -> Tensor:
        return torch.softmax(x, -1)

    f, x = compiled(fn), torch.randn(300, 3000)
    f(x)
    got: list[Tensor] = []
    thread = threading.Thread(target=lambda: got.append(f(x)))
    thread.start()
    thread.join()
    torch.testing.assert_close(got[0], fn(x))
