"""Functions and modules that are taken as Dynamo gives them: the same bits as through AOTAutograd."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.capture.direct import check

torch.manual_seed(0)
X, Y, ROW = torch.randn(4, 6), torch.randn(4, 6), torch.randn(6)
IMAGE = torch.randn(2, 3, 8, 8)
HEADS = torch.randn(2, 4, 10, 8)
NUMBERS = torch.randint(-5, 6, (4, 6))
MASK = X > 0
INDICES = torch.tensor([3, 0, 0, 2])

Case = tuple[Callable[..., Any], tuple[Any, ...]]


def case(function: Callable[..., Any], *args: Any) -> Case:
    return function, args


POINTWISE = {
    "arithmetic": case(lambda x, y: (x + y) * 2 - x / (y.abs() + 1), X, Y),
    "broadcasting": case(lambda x, y: x * y + y[None, :], X, ROW),
    "numbers on the left": case(lambda x: (1 - x, 2 / x, 2**x, 3 * x, 1.5 + x), X),
    "powers": case(lambda x: (x**2, x**3, x**0.5, x.pow(-1), torch.pow(2.0, x)), X.abs()),
    "int and float": case(lambda x, n: (x + n, n / 2, n * 1.5, n // 2, n % 3, -n), X, NUMBERS),
    "a tensor of rank 0": case(lambda x, n: (x.double() + x[0, 0], n + x[0, 0]), X, NUMBERS),
    "bool and int": case(lambda m, n: (m + n, m & (n > 0), ~m, m | m, m ^ (n == 2)), MASK, NUMBERS),
    "half": case(lambda h: (h * 2 + 1, h.float() + 1, (h + h).sigmoid(), h.exp()), X.half()),
    "bfloat16": case(lambda h, x: (h * x, h.softmax(-1), h.mean(-1), F.gelu(h)), X.bfloat16(), X),
    "comparison": case(lambda x, y: (x < y, x >= 0, torch.ne(x, y), x.eq(y), torch.maximum(x, y)), X, Y),
    "where": case(lambda m, x: (torch.where(m, x, 0.0), torch.where(m, x, -x), x.where(m, x * 2)), MASK, X),
    "masked_fill": case(lambda x, m: (x.masked_fill(m, float("-inf")), x.masked_fill(~m, 1)), X, MASK),
    "clamp": case(lambda x: (x.clamp(-1, 1), x.clamp(min=0), torch.clamp(x, max=0.5), x.clip(0, 1)), X),
    "clamp by tensors": case(lambda x, y: (x.clamp(y, y + 1), torch.clamp(x, min=y)), X, Y),
    "rounding": case(lambda x: (x.floor(), x.ceil(), x.round(), x.trunc(), torch.frac(x)), X * 3),
    "transcendental": case(
        lambda x: (x.exp(), x.tanh(), torch.erf(x), x.log1p(), x.sin(), x.rsqrt()), X.abs()
    ),
    "alpha": case(lambda x, y: (torch.add(x, y, alpha=2), x.sub(y, alpha=0.5), torch.rsub(x, y)), X, Y),
    "fused": case(
        lambda x, y: (x.addcmul(x, y, value=2), torch.lerp(x, y, 0.3), torch.addcdiv(x, y, x.exp())), X, Y
    ),
    "division": case(
        lambda x, y: (torch.div(x, y, rounding_mode="floor"), x.fmod(y), x.remainder(y), x // y), X, Y
    ),
    "operators": case(
        lambda x, y: (operator.add(x, y), operator.neg(x), operator.truediv(x, y), abs(x), (+x) * 2), X, Y
    ),
    "shifts": case(lambda n: (n << 2, n >> 1, torch.bitwise_not(n)), NUMBERS),
    "logic": case(lambda x, y: (x.logical_and(y), torch.logical_not(x), x.isnan(), x.isinf()), X, Y),
    "activations": case(
        lambda x: (
            F.relu(x),
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.silu(x),
            F.elu(x),
            F.leaky_relu(x, 0.1),
            F.softplus(x),
            F.hardswish(x),
            F.hardsigmoid(x),
            F.relu6(x),
            F.mish(x),
            F.logsigmoid(x),
            F.hardtanh(x, -2, 2),
            F.glu(x),
            torch.sigmoid(x),
        ),
        X,
    ),
    "casts": case(
        lambda x, n: (
            x.to(torch.float64),
            x.half(),
            n.float(),
            x.int(),
            x.to(n.dtype),
            n.bool(),
            n.type_as(x),
        ),
        X,
        NUMBERS,
    ),
    "makers": case(
        lambda x: (
            torch.zeros_like(x),
            torch.full_like(x, 3),
            x.new_zeros(2, 3),
            x.new_ones((2, 3)),
            torch.zeros(2, 2),
            torch.ones(3),
            torch.full((2, 2), 7),
            torch.arange(5),
            torch.arange(1, 9, 2),
            x + torch.tensor(2.5),
            torch.arange(4.0) + x[:, 0],
            x.new_full((2,), 3.0),
        ),
        X,
    ),
}  # fmt: skip

REDUCTIONS = {
    "sums": case(
        lambda x: (x.sum(), x.sum(0), x.sum((0, 1)), x.sum(-1, keepdim=True), torch.sum(x, dim=1)), X
    ),
    "of integers": case(
        lambda n, m: (n.sum(), n.sum(0), m.sum(), n.prod(1), m.any(), n.amax(0)), NUMBERS, MASK
    ),
    "means": case(lambda x: (x.mean(), x.mean(0), x.mean(dim=(-1, 0)), torch.mean(x, 1, True)), X),
    "to another dtype": case(lambda x: (x.sum(dtype=torch.float64), x.mean(-1, dtype=torch.float64)), X),
    "extremes": case(
        lambda x: (
            x.max(),
            x.min(1),
            x.max(dim=0)[0],
            torch.max(x, 1, keepdim=True),
            x.amax((0, 1)),
            x.argmax(-1),
        ),
        X,
    ),
    "variances": case(
        lambda x: (
            x.var(),
            x.var(0),
            x.std(-1, keepdim=True),
            x.var(1, unbiased=False),
            torch.var(x, dim=0, correction=0),
            torch.var_mean(x, 1),
            x.var(-1, False),
        ),
        X + 3,
    ),
    "truth": case(lambda m: (m.all(), m.any(0), torch.all(m, dim=1), m.any(-1, keepdim=True)), MASK),
    "softmax": case(
        lambda x: (
            x.softmax(-1),
            F.softmax(x, dim=0),
            torch.log_softmax(x, 1),
            F.log_softmax(x, dim=-1),
            F.softmax(x, dim=-1, dtype=torch.float64),
            x.logsumexp(0),
        ),
        X,
    ),
    "layer_norm": case(
        lambda x, w: (F.layer_norm(x, x.shape[-1:]), F.layer_norm(x, (6,), w, w, 1e-3)), X, ROW
    ),
    "batch_norm": case(
        lambda x, m, v: (F.batch_norm(x, m, v), F.batch_norm(x, m, v, m, v, False, 0.1, 1e-3)),
        X,
        ROW,
        ROW.abs(),
    ),
    "rms_norm by hand": case(
        lambda x, w: w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)), X, ROW
    ),
    "scans": case(lambda x: (x.cumsum(-1), torch.cumsum(x, 0), x.sort(-1), x.topk(2, -1), x.argsort(0)), X),
}  # fmt: skip

VIEWS = {
    "shapes": case(
        lambda x: (
            x.view(-1) + 1,
            x.reshape(2, 2, 6) + 1,
            x.flatten() + 1,
            x.unsqueeze(1) + 1,
            (x + 1).view(2, -1),
            x[None].squeeze(0) * 2,
            x.view(4, 2, 3) * 2,
            torch.ravel(x) + 1,
        ),
        X,
    ),
    "permutations": case(
        lambda x: (
            x.t() + 1,
            x.T * 2,
            x.permute(1, 0).exp(),
            x.transpose(0, 1).sum(0),
            x.mT + 1,
            (x + 1).t(),
            torch.permute(x, (1, 0)) + 1,
            x.swapaxes(0, 1) - 1,
        ),
        X,
    ),
    "patches": case(
        lambda x: x.view(2, 3, 2, 4, 2, 4).permute(0, 2, 4, 1, 3, 5).reshape(2, 4, 48) * 2, IMAGE
    ),
    "expand": case(lambda x: (x.expand(3, 4, 6) + 1, x[:, :1].expand(-1, 6) * x, x[0].expand_as(x) + x), X),
    "slices": case(
        lambda x: (
            x[:, 1:] + 1,
            x[1:3, ::2] * 2,
            x[-1] + 1,
            x[..., :-1] + 1,
            x[:, None, 2] + 1,
            x[2, 3] + 1,
            x[:, -3:] + 1,
            x[None, ..., 0] + 1,
        ),
        X,
    ),
    "parts": case(
        lambda x: (
            *[p + 1 for p in x.chunk(2, -1)],
            *[p * 2 for p in x.split(4, 1)],
            x.select(0, 1) + 1,
            *[p - 1 for p in torch.split(x, [1, 5], dim=1)],
            x.unbind(0)[2] + 1,
            x.narrow(1, 2, 3) + 1,
        ),
        X,
    ),
    "joins": case(
        lambda x, y: (
            torch.cat([x, y]),
            torch.cat((x, y * 2), dim=-1),
            torch.stack([x, y], 1),
            torch.stack((x, x)),
        ),
        X,
        Y,
    ),
    "copies": case(
        lambda x: (
            x.repeat(2, 1),
            x.flip(0),
            x.roll(1, 0),
            torch.roll(x, (1, 2), (0, 1)),
            x.tril(),
            x.triu(1),
            x.repeat_interleave(2, 1),
            F.pad(x, (1, 2)),
            F.pad(x, (0, 1, 2, 0), value=3.0),
            torch.flip(x, (0, 1)),
        ),
        X,
    ),
    "contiguous": case(lambda x: (x.t().contiguous(), x.t().clone(), x.t().contiguous().view(-1)), X),
    "lookups": case(
        lambda x, i: (
            x[i],
            x[:, i],
            torch.index_select(x, 0, i),
            F.embedding(i, x),
            x[i] * 2,
            x.gather(0, i[None]),
        ),
        X,
        INDICES,
    ),
    "rotary": case(
        lambda q: torch.cat((-q[..., q.shape[-1] // 2 :], q[..., : q.shape[-1] // 2]), dim=-1) + q, HEADS
    ),
    "causal mask": case(
        lambda x: x.masked_fill(torch.triu(torch.ones(4, 6, dtype=torch.bool), 1), -1e9).softmax(-1), X
    ),
}  # fmt: skip

PRODUCTS = {
    "linear": case(lambda x, w, b: (F.linear(x, w), F.linear(x, w, b), x @ w.t() + b), X, torch.randn(5,
        6), ROW[:5]),
    "matmul": case(lambda x, y: (x @ y.mT, torch.matmul(x, y.t()), torch.mm(x, y.t()), x.mv(y[0])), X, Y),
    "batched": case(lambda q: (q @ q.transpose(-1, -2), torch.bmm(q[0], q[1].mT)), HEADS),
    "addmm": case(lambda b, x, y: (torch.addmm(b, x, y), torch.addmm(b, x, y, beta=0.5)), ROW[:4], X, Y.t()),
    "attention": case(lambda q: F.scaled_dot_product_attention(q, q * 2, q + 1), HEADS),
    "causal attention": case(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), HEADS),
    "masked attention": case(
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m), HEADS, torch.randn(10, 10)
    ),
    "attention by hand": case(
        lambda q: ((q @ q.transpose(-2, -1)) / 8**0.5).softmax(-1) @ q, HEADS
    ),
    "convolution": case(
        lambda x, w, b: (F.conv2d(x, w, b, padding=1), F.conv2d(x, w, stride=2).relu()), IMAGE,
            torch.randn(4, 3, 3, 3),
        torch.randn(4),
    ),
    "transposed convolution": case(
        lambda x, w, b: (
            F.conv_transpose2d(x, w, b, 2, output_padding=1),
            F.conv_transpose2d(x, w, padding=1),
        ),
        IMAGE,
        torch.randn(3, 4, 3, 3),
        torch.randn(4),
    ),
    "pools": case(
        lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool2d(x, 2)),
        IMAGE,
    ),
}  # fmt: skip


def written(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    a = x + 1
    a += y
    a.mul_(2).relu_()
    b = a.view(-1)
    b.add_(1)
    a[0, 1:] = 3.0
    a[:, 0] = y[:, 1]
    return a * 1, b + a.reshape(-1)


def written_views(x: Tensor) -> tuple[Tensor, Tensor]:
    z = torch.zeros_like(x)
    top, left = z[:2], z.t()[:3]
    top += 1
    left *= x.t()[:3] + 2
    z[1:3].copy_(x[1:3])
    z[3].fill_(5)
    return z, top + left.sum()


def read_before(x: Tensor) -> tuple[Tensor, Tensor]:
    """What was computed before a write keeps its value; a view does not."""
    a = x * 2
    before, view = a + 0, a[1]
    a.zero_()
    return before, view + 1


def returned_aliases(x: Tensor) -> tuple[Tensor, ...]:
    a = x + 1
    a += 1
    return a, a.t(), a[1:], a.view(-1)


def written_by_masks(x: Tensor, n: Tensor) -> tuple[Tensor, ...]:
    a, b = x * 1, n + 0
    a[n > 2] = float("-inf")
    a.t()[a.t() < 0] = 0
    b[b == 4] = -100
    return a, b, a.softmax(-1)


def written_elsewhere(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
    """By operators that run in eager: each as its form that writes nowhere."""
    a, b = x + 1, x * 2
    a.scatter_(0, i[None], 5.0).add_(1)
    b[1:].index_add_(1, i, x[1:, :4])
    b.index_put_((i,), x[0])
    return a, b, b.t().index_fill(0, i, 2)


WRITES = {
    "by masks": case(written_by_masks, X, NUMBERS),
    "by operators": case(written_elsewhere, X, INDICES),
    "a value and views": case(written, X, Y),
    "through views": case(written_views, X),
    "read before": case(read_before, X),
    "returned aliases": case(returned_aliases, X),
    "int += float of rank 0": case(lambda n: (n + 1).add_(2), NUMBERS),
    "inplace=True": case(lambda x: F.relu(x + 1, inplace=True) + F.silu(x * 2, inplace=True), X),
    "masked_fill_": case(lambda x, m: (x * 1).masked_fill_(m, 0), X, MASK),
    "one value in two names": case(lambda x: ((a := x.exp()).add_(1), a), X),
}  # fmt: skip


class Block(nn.Module):
    """A layer of a transformer in evaluation, dropout and all."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)
        self.mlp = nn.Sequential(
            nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 32)
        )

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = (s.view(b, t, 4, c // 4).transpose(1, 2) for s in self.qkv(self.norm(x)).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(x)


class Residual(nn.Module):
    """A block of a residual network in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.Conv2d(3, 3, 3, padding=1)
        self.norm, self.other = nn.BatchNorm2d(3), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.a(x)), inplace=True)
        y = self.other(self.b(y))
        y += x
        return F.relu(y, inplace=True)


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(-1)),
        (X,)),
    "transformer": (Block, (torch.randn(2, 7, 32),)),
    "residual": (Residual, (IMAGE,)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(True), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.Linear(4, 2),
        ),
        (IMAGE,),
    ),
    "embedding": (lambda: nn.Sequential(nn.Embedding(6, 8), nn.LayerNorm(8), nn.Dropout(), nn.Tanh()),
        (INDICES,)),
}  # fmt: skip

GROUPS = {
    "pointwise": POINTWISE, "reduction": REDUCTIONS, "view": VIEWS, "product": PRODUCTS, "write": WRITES,
}  # fmt: skip
CASES = {f"{group}: {name}": case for group, cases in GROUPS.items() for name, case in cases.items()}


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("name", CASES)
def test_function(name: str) -> None:
    function, args = CASES[name]
    check(function, *args, dynamic=False)


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("name", CASES)
def test_dynamic(name: str) -> None:
    function, args = CASES[name]
    check(function, *args, dynamic=True)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_module(name: str, dynamic: bool) -> None:
    build, args = MODULES[name]
    torch.manual_seed(0)
    check(build().eval(), *args, dynamic=dynamic)


def test_float_argument() -> None:
    check(lambda x, s: (x * s, x + 2 * s, x.clamp(max=s)), X, 0.7, dynamic=True)


def test_sizes_that_are_results() -> None:
    check(lambda x: (x.size(0), x.shape[1] + 1, x.view(-1) + x.numel()), X, dynamic=True)


def test_sizes_that_change() -> None:
    """One graph for every length, without AOTAutograd."""
    from dlc.report import collect

    function = torch.compile(lambda x: (x[:, 1:] + x.mean(-1, keepdim=True)).softmax(-1), backend="dlc")
    torch._dynamo.reset()
    with collect() as reports:
        for n in (5, 9, 13, 1000):
            x = torch.randn(3, n)
            torch._dynamo.mark_dynamic(x, 1)
            torch.testing.assert_close(function(x), (x[:, 1:] + x.mean(-1, keepdim=True)).softmax(-1))
    assert [r["kind"] for r in reports] == ["direct"]


def test_strided_arguments() -> None:
    args = (torch.randn(6, 4).t(), torch.randn(8, 12)[::2, ::2], torch.randn(6).expand(4, 6))
    check(lambda x, y, z: (x + y, y * z, (x @ y.t()).relu(), z + 1, x.clone()), *args)


def test_arguments_that_overlap() -> None:
    x = torch.randn(8, 6)
    check(lambda x, y: (x + y, x * 2, y - 1), x[:6], x[2:])


def test_empty() -> None:
    check(lambda x: (x + 1, x.sum(), torch.cat([x, x]), x.view(-1).exp()), torch.randn(0, 3))
