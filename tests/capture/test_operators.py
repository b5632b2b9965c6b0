"""Every family of overloads is compiled, and computes what eager computes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.capture.graphs import check

pytestmark = pytest.mark.in_turn(2)

INF = float("inf")


def floats(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g).to(dtype)


def ints(*shape: int, dtype: torch.dtype = torch.int64, low: int = -9, high: int = 10) -> Tensor:
    g = torch.Generator().manual_seed(2)
    return torch.randint(low, high, shape, generator=g).to(dtype)


X, Y, Z = floats(3, 4), floats(3, 4, seed=2), floats(2, 3, 4, seed=3)
ODD = torch.tensor([0.0, -0.0, INF, -INF, float("nan"), 1.0, -1.5, 2.5, 0.3])
INTS, BOOLS = ints(3, 4), ints(3, 4) > 0

OF_TORCH = """
    abs neg sign sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos
    atan sinh cosh tanh asinh acosh atanh erf erfc lgamma sigmoid floor ceil trunc round frac sinc
    square isnan isinf isfinite isposinf isneginf signbit logical_not relu logit nan_to_num deg2rad
    rad2deg positive sgn
"""
OF_FUNCTIONAL = """
    gelu silu mish hardswish hardsigmoid hardtanh relu6 elu celu selu softplus logsigmoid leaky_relu
    tanhshrink softsign softshrink hardshrink
"""
POINTWISE: dict[str, Callable[..., Any]] = {
    name: getattr(module, name)
    for module, names in ((torch, OF_TORCH), (F, OF_FUNCTIONAL))
    for name in names.split()
}

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    # promotion
    "int + float": (lambda a, b: a + b, (INTS, X)),
    "int + 0-dim float": (lambda a, b: a + b, (INTS, torch.tensor(1.5))),
    "half + 0-dim float": (lambda a, b: a * b, (X.half(), torch.tensor(1.1))),
    "bfloat16 + constant": (lambda a: (a + 0.1) * 1.7, (X.bfloat16(),)),
    "bool + int": (lambda a, b: a + b, (BOOLS, INTS)),
    "bool and bool": (lambda a, b: (a * b, a + b, a ^ b, ~a), (BOOLS, ~BOOLS)),
    "bits of bools": (lambda a, b: (a & b, a | b), (BOOLS, ~BOOLS)),
    "int / int": (lambda a, b: a / (b * b + 1), (INTS, INTS)),
    "int compares with float": (lambda a: (a > 0.5, a == 1.0, a != 2), (INTS,)),
    "uint8 wraps": (lambda a: (a + 200, a * 3, a - 7), (ints(5, dtype=torch.uint8, low=0),)),
    "int8 with uint8": (lambda a, b: a + b, (ints(5, dtype=torch.int8), ints(5, dtype=torch.uint8, low=0))),
    "comparison of 0-dim and bool": (lambda a, b: (a < b, b <= a), (BOOLS, torch.tensor(0.5))),
    # arithmetic
    "alpha": (
        lambda a, b: (torch.add(a, b, alpha=2), torch.sub(a, b, alpha=0.5), torch.rsub(a, 2.0)),
        (X, Y),
    ),
    "rounding division": (
        lambda a, b: (
            torch.div(a, b, rounding_mode="floor"),
            torch.div(a, b, rounding_mode="trunc"),
            a // 0.7,
            a % 0.7,
            torch.fmod(a, b),
        ),
        (X, Y),
    ),
    "integer division": (
        lambda a: (a // 3, a % 3, torch.div(a, -4, rounding_mode="trunc"), torch.fmod(a, 3)),
        (INTS,),
    ),
    "powers": (lambda a: (a**2, a**3, a**0.5, a**-1, a**-2, a**1.7, 2.0**a, a**0, a**1), (X.abs() + 0.1,)),
    "integer powers": (lambda a: (a**2, a**3), (INTS,)),
    "extremes": (
        lambda a, b: (torch.maximum(a, b), torch.fmin(a, b), torch.atan2(a, b), torch.hypot(a, b)),
        (X, Y),
    ),
    "shifts": (lambda a: (a << 2, a >> 1, ~a, a & 3, a | 5, a ^ 6), (INTS,)),
    "sums of products": (
        lambda a, b: (
            torch.addcmul(a, a, b, value=0.5),
            torch.addcdiv(a, a, b.abs() + 1),
            torch.lerp(a, b, 0.3),
            torch.lerp(a, b, 0.7),
            torch.lerp(a, b, b.sigmoid()),
        ),
        (X, Y),
    ),
    "logarithms": (
        lambda a, b: (torch.xlogy(a, b.abs()), torch.logaddexp(a, b), torch.logaddexp2(a, b)),
        (X, Y),
    ),
    "choices": (
        lambda a, b, c: (
            torch.where(c, a, b),
            torch.where(c, a, 0),
            a.masked_fill(c, -INF),
            a.clamp(-0.5),
            a.clamp(max=0.2),
            torch.clamp(a, b - 1, b),
            a.clamp_min(0.1),
        ),
        (X, Y, BOOLS),
    ),
    "logic": (
        lambda a, b: (torch.logical_and(a, b), torch.logical_or(a, b), torch.logical_xor(a, b)),
        (X, BOOLS),
    ),
    "casts": (lambda a: (a.double(), a.half(), a.bfloat16(), a.int(), a.bool(), a.long().float()), (X,)),
    # reductions
    "sums": (
        lambda a: (a.sum(), a.sum(0), a.sum((0, 2), keepdim=True), a.mean(), a.mean(-1), a.prod(1)),
        (Z,),
    ),
    "sums of integers": (
        lambda a, b: (a.sum(), b.sum(0), a.prod(), b.sum(dtype=torch.float32)),
        (INTS, BOOLS),
    ),
    "half sums": (lambda a: (a.sum(), a.mean(0), a.sum(1, dtype=torch.float32)), (X.half(),)),
    "extremes along": (
        lambda a: (a.amax(1), a.amin((0, 1)), *a.max(0), *a.min(0, keepdim=True), a.max()),
        (X,),
    ),
    "positions": (lambda a: (a.argmax(), a.argmin(1), a.argmax(0, keepdim=True)), (X,)),
    "first of equals": (lambda a: (a.argmax(1), *a.min(1), a.argmax()), (torch.zeros(2, 5),)),
    "truth": (lambda a: (a.any(), a.all(1), (a > 0).any(0, keepdim=True), a.all()), (INTS,)),
    "variance": (
        lambda a: (a.var(), a.var(1), a.std(0, correction=0), *torch.var_mean(a, 2), *torch.std_mean(a)),
        (Z,),
    ),
    "log of a sum": (
        lambda a: (a.logsumexp(1), a.logsumexp((0, 1)), torch.full_like(a, -INF).logsumexp(1)),
        (X,),
    ),
    "norms of vectors": (lambda a: (a.norm(), a.norm(dim=1), torch.linalg.vector_norm(a, 1, 0)), (X,)),
    # softmax and norms
    "softmax": (lambda a: (a.softmax(1), a.log_softmax(0), a.softmax(0)), (X,)),
    "softmax of half": (lambda a: (a.softmax(1), a.softmax(1, dtype=torch.float32)), (X.bfloat16(),)),
    "layer norm": (lambda a, w: (F.layer_norm(a, (4,)), F.layer_norm(a, (3, 4), w, w)), (Z, Y)),
    "batch norm": (
        lambda a, m, v, w: F.batch_norm(a, m, v, w, w, False),
        (Z, X[0, :3], X[1, :3].abs(), Y[2, :3]),
    ),
    "group norm": (lambda a, w: F.group_norm(a, 2, w, w), (floats(2, 4, 5), Y[0])),
    "instance norm": (lambda a: F.instance_norm(a), (floats(2, 4, 5),)),
    "rms norm": (lambda a: F.rms_norm(a, (4,)), (X,)),
    # views
    "reshapes": (
        lambda a: (a.reshape(6, 4) + 1, a.reshape(-1) * 2, a.flatten(1).exp(), a.unflatten(2, (2, 2)).exp()),
        (Z,),
    ),
    "permutations": (
        lambda a: (a.permute(2, 0, 1).exp(), a.transpose(0, 2) + 1, a[0].t() * 2, a.mT + 1),
        (Z,),
    ),
    "units": (
        lambda a: (
            a.unsqueeze(1).exp(),
            a[:, :1].squeeze(1) + 1,
            a[None].squeeze() + 1,
            a.expand(2, 3, 4) + 1,
        ),
        (X,),
    ),
    "slices": (
        lambda a: (a[1:] + 1, a[:, ::2] + 1, a[-1] + 1, a[..., -3:-1] + 1, a.narrow(1, 0, 2) + 1, a[5:] + 1),
        (X,),
    ),
    "parts": (
        lambda a: [t + 1 for t in (*a.split(2, 2), *a.unbind(0), *a.split([1, 2], 1), *a[1].chunk(3))],
        (Z,),
    ),
    "diagonals": (
        lambda a: (a.diagonal() + 1, a.diagonal(1) + 1, a.diagonal(-1) + 1, a.diag(), a[0].diag()),
        (X,),
    ),
    "windows": (lambda a: (a.unfold(1, 2, 1) + 1, a.flatten().unfold(0, 4, 3) + 1), (X,)),
    "strides": (
        lambda a: (a.clone(memory_format=torch.contiguous_format).as_strided((2, 2), (1, 4), 1) * 2,),
        (X,),
    ),
    # rearrangements
    "joins": (
        lambda a, b: (
            torch.cat([a, b]),
            torch.cat([a, b.int()], 1),
            torch.stack([a, b], 1),
            torch.hstack([a, b]),
        ),
        (X, Y),
    ),
    "turns": (
        lambda a: (
            a.flip(0),
            a.flip((0, 1)),
            a.roll(1, 0),
            a.roll((2, -1), (0, 1)),
            a.rot90(),
            a.repeat(2, 1, 3),
        ),
        (X,),
    ),
    "pads": (lambda a: (F.pad(a, (1, 2)), F.pad(a, (0, 1, 2, 0), value=3.0), F.pad(a, (-1, 1))), (X,)),
    "scattered slices": (
        lambda a, b: (
            a.slice_scatter(b[:1], 0, 1, 2),
            a.select_scatter(b[0], 0, 2),
            a.slice_scatter(b[:, 1:], 1, 1),
        ),
        (X, Y),
    ),
    "triangles": (lambda a: (a.tril(), a.triu(1), a.tril(-1), torch.tril(torch.ones(4, 4))), (X,)),
    # made from nothing
    "constants": (
        lambda a: (
            torch.zeros(3),
            torch.full_like(a, 2.5),
            torch.ones(2, dtype=torch.int32),
            torch.eye(3, 4),
            a.new_full((2,), 7),
            torch.full((2,), True),
            torch.tensor(3.5),
        ),
        (X,),
    ),
    "progressions": (
        lambda a: (
            torch.arange(5),
            torch.arange(2, 9, 3),
            torch.arange(0, 1, 0.3),
            torch.arange(3.0),
            torch.linspace(0, 1, 7),
            torch.arange(4, dtype=torch.int32),
        ),
        (X,),
    ),
    # lookups
    "lookups": (
        lambda w, i: (F.embedding(i, w), w.index_select(1, i[0]), w[i], w[:, i], w[i[0]]),
        (X, ints(2, 3, low=0, high=3)),
    ),
    "resizes": (
        lambda a: (F.interpolate(a, scale_factor=2), F.interpolate(a, (5, 3), mode="bilinear")),
        (floats(1, 2, 3, 4),),
    ),
    "negative lookups": (lambda w, i: w[i], (X, torch.tensor([0, -1, -3, 2]))),
    # losses
    "losses": (
        lambda a, b: (
            F.mse_loss(a, b),
            F.smooth_l1_loss(a, b),
            F.huber_loss(a, b, "none"),
            F.l1_loss(a, b),
            F.binary_cross_entropy_with_logits(a, b.sigmoid()),
            F.kl_div(a, b.softmax(1)),
        ),
        (X, Y),
    ),
}


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=lambda d: str(d)[6:])
def test_pointwise(name: str, dtype: torch.dtype) -> None:
    infinite = name != "gelu"  # eager's is NaN at infinity
    values = torch.cat([ODD[ODD.isfinite() | infinite], floats(7)]).to(dtype)
    check(POINTWISE[name], values)


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8], ids=lambda d: str(d)[6:])
def test_pointwise_of_integers(name: str, dtype: torch.dtype) -> None:
    """Where eager has no such kernel, it is an error here too."""
    values = ints(6, dtype=dtype, low=0, high=5)
    try:
        POINTWISE[name](values)
    except RuntimeError:
        torch._dynamo.reset()
        compiled = torch.compile(POINTWISE[name], backend="dlc", options={"strict": True, "tier": "tcc"})
        with torch.no_grad(), pytest.raises(RuntimeError):
            compiled(values)
    else:
        check(POINTWISE[name], values)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    function, args = FUNCTIONS[name]
    check(function, *args)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_of_strided_inputs(name: str) -> None:
    """The same numbers at every second place of a larger tensor, turned around."""
    function, args = FUNCTIONS[name]
    check(function, *(spread(a) for a in args))


def spread(t: Tensor) -> Tensor:
    wide = torch.empty([2 * n for n in reversed(t.shape)], dtype=t.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in t.shape)].permute(tuple(reversed(range(t.dim()))))
    return view.copy_(t)


SYMBOLIC = [
    name for name in FUNCTIONS if name not in ("diagonals", "strides", "pads", "turns", "scattered slices")
]


@pytest.mark.parametrize("name", SYMBOLIC)
def test_function_of_any_size(name: str) -> None:
    """With sizes that are names; some parts are not provably inside and stay with eager."""
    function, args = FUNCTIONS[name]
    check(function, *args, dynamic=True)
