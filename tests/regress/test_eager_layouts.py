"""Results lie in memory as eager's do, where torch's fake tensors are wrong about it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import dlc.backend
from tests.tolerance import assert_like_eager, strides


def _turned(*shape: int) -> Tensor:
    return torch.randn(*shape).mT.contiguous().mT


LAST, VOLUME = torch.channels_last, torch.channels_last_3d


def _backward(gradient: Tensor, x: Tensor) -> Tensor:
    reserve = torch.empty(0, dtype=torch.uint8)
    zero, one, all_three = x.new_zeros(2), x.new_ones(2), [True] * 3
    return torch.ops.aten.batch_norm_backward(
        gradient, x, one, zero, one, zero, one, True, 1e-5, all_three, reserve
    )[0]


BETWEEN: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "logical_and": (torch.logical_and, (torch.randn(10, 1, 5), _turned(10, 5))),
    "heaviside": (torch.heaviside, (torch.randn(10, 1, 5), _turned(10, 5))),
    "logaddexp": (torch.logaddexp, (torch.randn(10, 1, 5), _turned(1, 10, 5))),
    "xlogy": (torch.xlogy, (torch.rand(10, 1, 5), _turned(10, 5).abs())),
    "copysign": (torch.copysign, (_turned(10, 5), torch.tensor(-1.0))),
    "floor_divide": (torch.floor_divide, (_turned(10, 5), torch.tensor(0.3))),
    "complex": (torch.complex, (torch.randn(10, 1, 5), _turned(10, 5))),
    "power": (lambda x: torch.pow(2.0, x), (_turned(10, 5),)),
    "angle": (torch.angle, (torch.randn(5, 10, dtype=torch.complex64).t(),)),
    "ldexp": (torch.ldexp, (torch.randn(10, 1, 5), torch.randint(5, (5, 10)).t())),
    "isin": (torch.isin, (_turned(10, 5).round(), _turned(10, 5).round())),
    "log_sigmoid": (functional.logsigmoid, (_turned(10, 5),)),
    "batch_norm": (
        lambda x, m, v: functional.batch_norm(x, m, v, training=True),
        (_turned(3, 2, 3, 4), torch.zeros(2), torch.ones(2)),
    ),
    "batch_norm_channels_last": (
        lambda x, m, v: functional.batch_norm(x, m, v),
        (torch.randn(3, 2, 3, 4).to(memory_format=torch.channels_last), torch.zeros(2), torch.ones(2)),
    ),
    "batch_norm_with_update": (
        lambda x, m, v: torch.ops.aten._batch_norm_with_update(x, None, None, m, v, 0.1, 1e-5)[0],
        (_turned(3, 2, 3, 4), torch.zeros(2), torch.ones(2)),
    ),
    "batch_norm_no_update": (
        lambda x, m, v: torch.ops.aten._batch_norm_no_update(x, None, None, m, v, 0.1, 1e-5)[0],
        (_turned(5, 4, 3), torch.zeros(4), torch.ones(4)),
    ),
    "batch_norm_backward": (_backward, (_turned(3, 2, 3, 4), _turned(3, 2, 3, 4))),
    "batch_norm_backward_of_rows": (
        _backward,
        (torch.randn(3, 2, 3, 4), torch.randn(3, 2, 3, 4).to(memory_format=LAST)),
    ),
    "nll_loss": (
        lambda x, at: functional.nll_loss(x, at, reduction="none"),
        (_turned(2, 3, 4, 4), torch.randint(3, (2, 4, 4)).mT.contiguous().mT),
    ),
    "roll": (lambda x: x.roll(1, 2), (torch.randn(2, 3, 5, 6).to(memory_format=LAST),)),
    "roll_axes": (
        lambda x: x.roll((1, 2), dims=(1, 2)),
        (torch.randn(2, 3, 5, 6, 4).to(memory_format=VOLUME),),
    ),
    "roll_all": (lambda x: x.roll(1), (torch.randn(2, 3, 5, 6).to(memory_format=LAST),)),
    "channel_shuffle": (
        lambda x: functional.channel_shuffle(x, 2),
        (torch.randn(2, 4, 5, 6).to(memory_format=LAST),),
    ),
    "reflected": (
        lambda x: functional.pad(x, (1, 1, 1, 1, 1, 1), mode="reflect"),
        (torch.randn(2, 3, 5, 6, 7).to(memory_format=VOLUME),),
    ),
    "replicated": (
        lambda x: functional.pad(x, (1, 1, 1, 1, 1, 1), mode="replicate"),
        (torch.randn(3, 5, 6, 7).to(memory_format=LAST),),
    ),
    "grid_sample": (
        lambda x, at: functional.grid_sample(x, at, align_corners=False),
        (torch.randn(3, 2, 5, 6, 7).transpose(0, 1), torch.rand(2, 4, 4, 4, 3)),
    ),
}


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("name", BETWEEN)
@pytest.mark.parametrize("then", ["itself", "more", "view"])
def test_layout(compiler: Callable[..., Any], name: str, then: str) -> None:
    function, operands = BETWEEN[name]

    def f(*args: Tensor) -> Tensor:
        made = function(*args)
        return made if then == "itself" else made * 2 if then == "more" else made.mT[..., 1:] + 1

    run = compiler(f)
    assert_like_eager(run, f, *operands)
    assert strides(run(*operands)) == strides(f(*operands))


def test_layout_with_gradients(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return torch.logaddexp(x, y) * 3

    x, y = torch.randn(10, 1, 5, requires_grad=True), _turned(10, 5).requires_grad_()
    made, eager = compiler(f)(x, y), f(x, y)
    assert strides(made) == strides(eager)
    grads = [torch.autograd.grad(r, (x, y), torch.ones_like(eager)) for r in (made, eager)]
    torch.testing.assert_close(*grads)
    assert [strides(g) for g in grads[0]] == [strides(g) for g in grads[1]]


def test_gradient_of_batch_norm(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return functional.batch_norm(x, None, None, w, training=True)

    x, w = _turned(5, 4, 3).requires_grad_(), torch.randn(4, requires_grad=True)
    grads = [torch.autograd.grad(r, (x, w), torch.ones_like(r)) for r in (compiler(f)(x, w), f(x, w))]
    assert strides(grads[0][0]) == strides(grads[1][0])
    torch.testing.assert_close(*grads)


def test_views_of_a_result_share_its_memory(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        made = torch.logical_and(x, y)
        return made, made[:, 2:]

    x, y = torch.randn(10, 1, 5), _turned(10, 5)
    whole, part = compiler(f)(x, y)
    assert whole.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()
    assert (strides(whole), strides(part)) == tuple(map(strides, f(x, y)))
    assert torch.equal(whole[:, 2:], part) and torch.equal(whole, f(x, y)[0])


def test_sizes_as_names(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return torch.logical_and(x, y)

    run = compiler(f, dynamic=True)
    for n in (10, 12):
        x, y = torch.randn(n, 1, 5), _turned(n, 5)
        assert torch.equal(run(x, y), f(x, y))


def test_all_in_one_walk(compiler: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    walks, compile_once = [], dlc.backend._compile

    def counting(*args: Any, **kwargs: Any) -> Any:
        walks.append(kwargs.get("direct", False))
        return compile_once(*args, **kwargs)

    def f(x: Tensor, y: Tensor) -> list[Tensor]:
        return [torch.logaddexp(x + k, y) * 2 for k in range(20)]

    monkeypatch.setattr(dlc.backend, "_compile", counting)
    x, y = torch.randn(10, 1, 5), _turned(10, 5)
    made, eager = compiler(f)(x, y), f(x, y)
    assert [strides(m) for m in made] == [strides(e) for e in eager]
    assert walks == [True, False, False]  # as Dynamo gives it; AOTAutograd's graph, again with all orders


def test_one_after_another(compiler: Callable[..., Any]) -> None:
    def f(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        first = torch.logaddexp(x, y)
        second = torch.logaddexp(z, first.permute(1, 2, 0))
        third = torch.xlogy(second.permute(2, 0, 1)[1:], y)
        return first, second, third * 2, first.exp() + third.sum()

    args = torch.randn(10, 1, 5), _turned(10, 5), torch.rand(10, 5, 1)
    run = compiler(f)
    assert_like_eager(run, f, *args)
    assert [strides(r) for r in run(*args)] == [strides(r) for r in f(*args)]


def test_gradient_of_no_windows() -> None:
    """Torch's fake tensor is a part of the padded gradient, which eager's is not."""
    x = torch.randn(0, 1, 5, 5, requires_grad=True)
    torch._dynamo.reset()
    options = {"strict": True, "tier": "tcc"}
    compiled = torch.compile(torch.nn.functional.unfold, backend="dlc", options=options)
    windows = compiled(x, 2, padding=1)
    (found,) = torch.autograd.grad(windows, x, torch.ones_like(windows))
    assert found.stride() == (25, 25, 5, 1)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 6), (2, 3, 5, 6, 7)])
def test_gradient_of_padded_images(mode: str, shape: tuple[int, ...], compiler: Callable[..., Any]) -> None:
    def f(x: Tensor) -> Tensor:
        return functional.pad(x, (1, 1) * (len(shape) - 2), mode=mode)

    x = torch.randn(shape).to(memory_format=LAST if len(shape) == 4 else VOLUME).requires_grad_()
    made, eager = (torch.autograd.grad(y, x, torch.ones_like(y))[0] for y in (compiler(f)(x), f(x)))
    torch.testing.assert_close(made, eager)
    assert strides(made) == strides(eager)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("gradients", [False, True])
def test_max_pool1d(gradients: bool, dynamic: bool, compiler: Callable[..., Any]) -> None:
    """Eager has two kernels: the one without gradients makes rows."""

    def f(x: Tensor) -> Tensor:
        return functional.max_pool1d(x + 1, 3, 2, 1) * 2

    x = torch.randn(2, 8, 3).mT.requires_grad_(gradients)
    run = compiler(f, dynamic=dynamic)
    made, eager = run(x), f(x)
    assert torch.equal(made, eager) and strides(made) == strides(eager)
