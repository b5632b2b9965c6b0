"""torch.vmap inside a graph: its region becomes operators on whole tensors; the rest is taken directly."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, vmap
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

from dlc.report import collect
from tests.capture.direct import check, check_indirect, run

G = torch.Generator().manual_seed(3)
X, Y = torch.randn(4, 6, generator=G), torch.randn(4, 6, generator=G)
KEPT = torch.rand(4, 6, generator=G) > 0.3


def one_axis(x: Tensor, y: Tensor) -> Tensor:
    return vmap(lambda a, b: (a * b).sum() + a)(x, y) + 1


def other_axes(x: Tensor, y: Tensor) -> Tensor:
    return vmap(lambda a, b: a - b.exp(), in_dims=(1, 0), out_dims=1)(x, y.t()) * 2


def several_results(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    a, b = vmap(lambda a, b: (a.softmax(-1), a.max() - b), out_dims=(0, 1))(x, y)
    return a + 1, b * 2


def not_batched(x: Tensor, y: Tensor) -> Tensor:
    """y is of all elements; one result does not depend on the batch."""
    a, b = vmap(lambda a: (a @ y.t(), y.cos()))(x)
    return a.sum(-1) + b.sum((1, 2))


def nested(x: Tensor, y: Tensor) -> Tensor:
    return vmap(lambda a: vmap(lambda b: torch.maximum(a, b).sum())(y))(x) + 1


def one_after_another(x: Tensor, y: Tensor) -> Tensor:
    return vmap(torch.sin)(x) + vmap(lambda a: a.flip(0))(y)


def causal_mask(x: Tensor, kept: Tensor) -> Tensor:
    """As transformers writes masks: a function of four numbers, which looks one up."""

    def allowed(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return q.new_ones((), dtype=torch.bool) & (k <= q) & kept[b, k]

    places = [torch.arange(n) for n in (x.shape[0], 1, x.shape[1], x.shape[1])]
    for axis in (3, 2, 1, 0):
        allowed = vmap(allowed, in_dims=tuple(0 if k == axis else None for k in range(4)))
    with TransformGetItemToIndex():
        mask = allowed(*places)
    return torch.where(mask, x[:, None, :, None], -torch.inf)


def and_of(*masks: Callable[..., Any]) -> Callable[..., Any]:
    def both(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        allowed = q.new_ones((), dtype=torch.bool)
        for mask in masks:
            allowed = allowed & mask(b, h, q, k)
        return allowed

    return both


def mask_of(allowed: Callable[..., Any], batch: int, queries: Tensor, keys: int) -> Tensor:
    """One element of the mask for each batch, head, query and key."""
    for axis in (3, 2, 1, 0):
        allowed = vmap(allowed, in_dims=tuple(0 if k == axis else None for k in range(4)), out_dims=0)
    with TransformGetItemToIndex():
        return allowed(torch.arange(batch), torch.arange(1), queries, torch.arange(keys))


@torch.no_grad()
def rotated(x: Tensor, at: Tensor) -> Tensor:
    """Rotary embeddings switch autocast off, outside of the mask's region."""
    rates = 1.0 / 100 ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    with torch.autocast(device_type=x.device.type, enabled=False):
        angles = at[:, None].float() * rates
        angles = torch.cat([angles, angles], -1)
    first, second = x.chunk(2, -1)
    return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()


def decoder(x: Tensor, tokens: Tensor, window: int | None = None) -> Tensor:
    """As transformers 4.57 has it: a mask made by functions of four numbers, rotary embeddings, attention."""

    def causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k <= q

    def near(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return k > q - window

    def padded(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return tokens[b, k]

    at = torch.arange(x.shape[1], device=x.device)
    masks = (causal, near, padded) if window else (causal, padded)
    mask = mask_of(and_of(*masks), x.shape[0], at, x.shape[1])
    heads = rotated(x.view(*x.shape[:2], 2, -1).transpose(1, 2), at)
    return F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask).transpose(1, 2)


def decoder_of_a_window(x: Tensor, tokens: Tensor) -> Tensor:
    return decoder(x, tokens, 3)


def modes_inside(x: Tensor, y: Tensor) -> Tensor:
    """Modes that have no effect, in the region itself."""

    @torch.no_grad()
    def function(a: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return (a * 2).softmax(-1)

    return vmap(function)(x) + y


CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    f.__name__: (f, (X, Y))
    for f in (one_axis, other_axes, several_results, not_batched, nested, one_after_another)
}
TEXTS, TOKENS = torch.randn(2, 7, 8, generator=G), torch.arange(7) > torch.tensor([[-1], [2]])
CASES["causal_mask"] = causal_mask, (X, KEPT)
CASES["modes_inside"] = modes_inside, (X, Y)
CASES["decoder"] = decoder, (TEXTS, TOKENS)
CASES["decoder_of_a_window"] = decoder_of_a_window, (TEXTS, TOKENS)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("name", CASES)
def test_region(name: str) -> None:
    function, args = CASES[name]
    check(function, *args)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(
    "name", ["several_results", "nested", "causal_mask", "decoder", "decoder_of_a_window"]
)
def test_region_of_any_size(name: str) -> None:
    function, args = CASES[name]
    check(function, *args, dynamic=True)


def test_one_program_for_all_sizes() -> None:
    options = {"strict": True, "capture": "direct"}
    compiled = torch.compile(causal_mask, backend="dlc", dynamic=True, options=options)
    with torch.no_grad(), collect() as reports:
        for rows, columns in ((4, 6), (3, 9), (7, 2)):
            args = torch.randn(rows, columns, generator=G), torch.rand(rows, columns, generator=G) > 0.5
            torch.testing.assert_close(compiled(*args), causal_mask(*args))
    assert [r["kind"] for r in reports] == ["direct"]


def test_what_a_region_decides_by_a_size_is_a_guard() -> None:
    """y has as many elements as a row in the first call; in the second it has one, for all of them."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        return vmap(lambda a: a + y)(x) * 2

    compiled = torch.compile(function, backend="dlc", dynamic=True, options={"strict": True})
    with torch.no_grad():
        for shape in ((6,), (1,)):
            y = torch.randn(shape, generator=G)
            torch.testing.assert_close(compiled(X, y), function(X, y))


def test_random_numbers_are_left() -> None:
    def function(x: Tensor) -> Tensor:
        return vmap(lambda a: a + torch.rand(()), randomness="different")(x)

    with torch.no_grad():
        _, _, reports = run(function, (X,), "auto")
    assert "writes to an argument or draws random numbers" in reports[0]["indirect"]


def test_writes_are_left() -> None:
    def function(x: Tensor) -> Tensor:
        return vmap(lambda a: a.clone().add_(1))(x) * 2

    assert "writes to an argument or draws random numbers" in check_indirect(function, X)


def test_modes_with_an_effect_are_left() -> None:
    def autocast(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return vmap(lambda a: a @ x.t())(x)

    def gradients(x: Tensor) -> Tensor:
        return vmap(torch.enable_grad()(lambda a: a * 2))(x)

    assert "switches autocast on" in check_indirect(autocast, X)
    with torch.no_grad():
        (result,), _, reports = run(gradients, (X.clone().requires_grad_(),), "auto")
    assert result.requires_grad
    assert "switches gradients on" in reports[0]["indirect"]


def test_a_region_that_fails_leaves_no_level_behind() -> None:
    test_random_numbers_are_left()
    assert torch._C._functorch.maybe_current_level() is None
