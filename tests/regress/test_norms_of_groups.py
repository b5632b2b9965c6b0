"""Norms of groups of channels: where channels are innermost, sums ran along the few of a group.

What is checked is the numbers, against float64, for channels first and last, and how a U-Net's norms lie in
memory is in tests/structure/test_norms.py.
"""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import dlc

EPS = {torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
#: N, C, G, H, W: channels of a group from 1 to 65, one image and more, images of one pixel and one row.
SIZES = [
    (1, 24, 8, 12, 20), (2, 24, 8, 16, 16), (2, 40, 1, 8, 8), (1, 40, 40, 9, 9), (3, 80, 2, 5, 7),
    (2, 12, 4, 1, 1), (1, 130, 2, 6, 6), (2, 6, 3, 1, 9), (1, 48, 3, 33, 31),
]  # fmt: skip
FORMATS = {"first": torch.contiguous_format, "last": torch.channels_last}
#: ... of an image that is alone in memory, and of every second column of one behind another.
LAYOUTS = [*FORMATS, *(f"{layout}, apart" for layout in FORMATS)]


def image(n: int, c: int, h: int, w: int, layout: str, dtype: torch.dtype = torch.float32) -> Tensor:
    where = FORMATS[layout.removesuffix(", apart")]
    if layout in FORMATS:
        return torch.randn(n, c, h, w).to(dtype).contiguous(memory_format=where)
    return torch.randn(n + 1, c, h, 2 * w).to(dtype).contiguous(memory_format=where)[1:, :, :, ::2]


def close(got: Tensor, want: Tensor, eps: float) -> None:
    most = want.abs().max().item() + 1e-6
    assert (got.double() - want.double()).abs().max().item() <= eps * most


def as_float64(fn: Callable[..., Tensor], *args: Tensor, grad: bool, **options: object) -> None:
    """The function compiled gives what it gives in float64, its gradients too, in the layout of eager."""
    torch._dynamo.reset()
    eps = max(EPS[arg.dtype] for arg in args)
    args = tuple(arg.detach().requires_grad_(grad) for arg in args)
    wide = [arg.detach().double().requires_grad_(grad) for arg in args]
    before = dlc.counters()
    got, want = torch.compile(fn, backend="dlc", **options)(*args), fn(*wide)
    assert got.stride() == fn(*args).stride()
    close(got, want, eps)
    if grad:
        given = torch.randn_like(got)
        got.backward(given)
        want.backward(given.double())
        for arg, expected in zip(args, wide, strict=True):
            close(arg.grad, expected.grad, 4 * eps)
    for count in ("eager_graphs", "gcc_failures"):  # the C of a gradient had two meanings of one name
        assert dlc.counters()[count] == before[count]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.in_turn(12)
def test_group_norm(size: tuple[int, ...], layout: str, dynamic: bool) -> None:
    n, c, groups, h, w = size
    args = image(n, c, h, w, layout), torch.randn(c), torch.randn(c)

    def fn(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.silu(F.group_norm(x, groups, w, b))

    for grad in (False, True):
        as_float64(fn, *args, grad=grad, dynamic=dynamic)


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("dtype", EPS, ids=str)
def test_dtypes(dtype: torch.dtype, layout: str, tier: str) -> None:
    args = image(2, 24, 10, 10, layout, dtype), torch.randn(24).to(dtype), torch.randn(24).to(dtype)

    def fn(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.relu(F.group_norm(x, 8, w, b))

    for grad in (False, True):
        as_float64(fn, *args, grad=grad, options={"tier": tier, "verify": True})


def by_hand(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    v = x.unflatten(1, (4, -1))
    mean, var = v.mean((2, 3, 4), keepdim=True), v.var((2, 3, 4), keepdim=True)
    y = ((v - mean) / (var + 1e-5).sqrt()).flatten(1, 2)
    return F.relu(y * w.view(1, -1, 1, 1) + b.view(1, -1, 1, 1))


def without_weights(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 6) * w.sum() + b.sum()


def of_a_convolution(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(F.conv2d(x, w.view(24, 1, 1, 1), groups=24, padding=1), 3, w, b)


def of_a_sequence(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.group_norm(x.flatten(2).transpose(1, 2).contiguous().transpose(1, 2), 8, w, b))


def with_a_residual(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return x + F.silu(F.group_norm(F.silu(F.group_norm(x, 8, w, b)), 8, b, w))


NORMS = [by_hand, without_weights, of_a_convolution, of_a_sequence, with_a_residual]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", NORMS, ids=lambda norm: norm.__name__)
@pytest.mark.in_turn(8)
def test_norms(norm: Callable[..., Tensor], layout: str) -> None:
    args = image(2, 24, 6, 10, layout), torch.randn(24), torch.randn(24)
    for grad in (False, True):
        for dynamic in (False, True):
            as_float64(norm, *args, grad=grad, dynamic=dynamic)


REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda v: v.sum((2, 3, 4)),
    "sum of images": lambda v: v.sum((0, 2, 3, 4)),
    "amax": lambda v: v.amax((2, 3, 4)),
    "prod": lambda v: (v * 0.1 + 1).prod(4).prod(3).prod(2),
    "of pixels": lambda v: v.sum((3, 4)),
    "of channels": lambda v: v.sum(2),
    "of groups": lambda v: v.sum((1, 3)),
    "of groups and pixels": lambda v: v.sum((1, 3, 4)),
    "of channels and rows": lambda v: v.sum((2, 3)),
    "of all": lambda v: v.sum(),
    "logsumexp": lambda v: v.logsumexp((2, 3, 4)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.in_turn(4)
def test_reductions(name: str, layout: str) -> None:
    as_float64(
        lambda x: REDUCTIONS[name]((x * 2).unflatten(1, (8, 3))), image(2, 24, 6, 10, layout), grad=True
    )


def test_conditions_of_groups() -> None:
    x = image(2, 24, 6, 10, "last")
    torch._dynamo.reset()

    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        v = (x > 2).unflatten(1, (8, 3)).flatten(2)
        return v.any(2), v.all(2)

    for got, want in zip(torch.compile(fn, backend="dlc")(x), fn(x), strict=True):
        assert torch.equal(got, want)


def test_a_size_that_has_a_divisor_is_no_less_than_it() -> None:
    """The number of channels is a symbol, of which 0 < C and C % 3 == 0 were known, but not 3 <= C."""
    args = image(2, 6, 1, 9, "first"), torch.randn(6)

    def fn(x: Tensor, w: Tensor) -> Tensor:
        return F.group_norm(x, 3) * w.sum()

    as_float64(fn, *args, grad=True, dynamic=True)
