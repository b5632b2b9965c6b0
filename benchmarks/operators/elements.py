"""Operators that compute each element of their result by itself."""

import torch
import torch.nn.functional as F

from benchmarks.cases.case import Case, Inputs, case, flat, uniform

ONE, TWO, THREE, POSITIVE = flat(1), flat(2), flat(3), uniform(0.1, 2.0)


def complexes(count: int) -> Inputs:
    """Vectors of complex numbers, of n floats each."""
    made = {"dtype": torch.complex64}
    return lambda n, g: tuple(torch.randn(n // 2, generator=g, **made) for _ in range(count))


def masked(n: int, g: torch.Generator) -> tuple[torch.Tensor, ...]:
    return torch.rand(n, generator=g) < 0.5, *torch.randn(2, n, generator=g).unbind()


def integers(n: int, g: torch.Generator) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randint(1, 1000, (n,), generator=g) for _ in range(2))


CASES: tuple[Case, ...] = (
    case(lambda x, y: x + y, TWO, "add"),
    case(lambda x, y: x * y, TWO, "multiply"),
    case(lambda x, y: x / y, TWO, "divide"),
    case(lambda x, y: torch.maximum(x, y), TWO, "maximum"),
    case(lambda x, y: torch.remainder(x, y), TWO, "remainder"),
    case(lambda x, y: x > y, TWO, "greater"),
    case(lambda x, y: x == y, TWO, "equal"),
    case(lambda x, y: torch.atan2(x, y), TWO, "atan2"),
    case(lambda x, y: torch.lerp(x, y, 0.3), TWO, "lerp"),
    case(lambda x, y, z: torch.addcmul(x, y, z), THREE, "addcmul"),
    case(lambda m, x, y: torch.where(m, x, y), masked, "where"),
    case(lambda m, x, y: x.masked_fill(m, 0.0), masked, "masked_fill"),
    case(lambda x: x.abs(), ONE, "abs"),
    case(lambda x: x.clamp(-1.0, 1.0), ONE, "clamp"),
    case(lambda x: x.floor(), ONE, "floor"),
    case(lambda x: torch.relu(x), ONE, "relu"),
    case(lambda x: F.leaky_relu(x), ONE, "leaky_relu"),
    case(lambda x: F.silu(x), ONE, "silu"),
    case(lambda x: F.hardswish(x), ONE, "hardswish"),
    case(lambda x: F.softplus(x), ONE, "softplus"),
    case(lambda x: F.gelu(x), ONE, "gelu"),
    case(lambda x: F.gelu(x), ONE, "gelu gradient", train=True),
    case(lambda x: F.gelu(x, approximate="tanh"), ONE, "gelu of tanh"),
    case(lambda x: F.gelu(x, approximate="tanh"), ONE, "gelu of tanh gradient", train=True),
    case(lambda x: F.silu(x), ONE, "silu gradient", train=True),
    case(lambda x: torch.sigmoid(x), ONE, "sigmoid"),
    case(lambda x: torch.tanh(x), ONE, "tanh"),
    case(lambda x: torch.exp(x), ONE, "exp"),
    case(lambda x: torch.log(x), POSITIVE, "log"),
    case(lambda x: torch.sqrt(x), POSITIVE, "sqrt"),
    case(lambda x: torch.rsqrt(x), POSITIVE, "rsqrt"),
    case(lambda x: torch.erf(x), ONE, "erf"),
    case(lambda x: torch.sin(x), ONE, "sin"),
    case(lambda x: x**2, ONE, "pow 2"),
    case(lambda x: x**2.5, POSITIVE, "pow 2.5"),
    case(lambda x: x**2.5, POSITIVE, "pow 2.5").of(torch.float64),
    case(lambda x: x.to(torch.bfloat16), ONE, "to bf16"),
    case(lambda x: x.to(torch.int32), ONE, "to int32"),
    case(lambda x: F.dropout(x, 0.1, True), ONE, "dropout in training"),
    case(lambda x, y: x * y, complexes(2), "complex multiply"),
    case(lambda x: x * x + x, complexes(1), "complex square and add"),
    case(lambda x: x.abs(), complexes(1), "complex abs"),
    case(lambda x, y: x + y, integers, "add int64"),
    case(lambda x, y: x // y, integers, "floor divide int64"),
    case(lambda x, y: x & y, integers, "and int64"),
)
