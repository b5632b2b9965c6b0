"""Functions without weights: elementwise chains, reductions, and what models are made of."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


def chain(x: Tensor, y: Tensor) -> Tensor:
    """Four transcendental functions and a selection."""
    return torch.where(x > 0, torch.tanh(x) * torch.sigmoid(y), torch.exp(-y.abs()) - x)


def fifteen(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Fifteen pointwise operations."""
    a = x * y + z
    b = torch.sigmoid(a) - x.abs()
    c = torch.maximum(b, y) * 0.5
    d = torch.exp(-c * c)
    return torch.where(d > z, d.sqrt() + a, torch.tanh(b)) / (c.square() + 1.0)


def normal_cdf(x: Tensor) -> Tensor:
    return 0.5 * (1.0 + torch.erf(x * math.sqrt(0.5)))


def black_scholes(
    spot: Tensor, strike: Tensor, years: Tensor, rate: float = 0.03, volatility: float = 0.2
) -> tuple[Tensor, Tensor]:
    """Prices of European call and put options."""
    deviation = volatility * years.sqrt()
    d1 = (torch.log(spot / strike) + (rate + 0.5 * volatility**2) * years) / deviation
    d2 = d1 - deviation
    discounted = strike * torch.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    return call, call - spot + discounted


def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, dim=-1)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def gelu_bias(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


def softmax_bias(x: Tensor, bias: Tensor) -> Tensor:
    return torch.softmax(x + bias, dim=-1)


def column_sum(x: Tensor) -> Tensor:
    return (x * x).sum(0)


def mean_square_error(x: Tensor, y: Tensor) -> Tensor:
    return (x - y).square().mean()


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target)


def variance(x: Tensor) -> Tensor:
    return x.var(-1)


def transpose_add(x: Tensor, y: Tensor) -> Tensor:
    return x.t() + y * 2


def concatenate(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(torch.cat([x * 2, y + 1], dim=-1))


def adam(weight: Tensor, grad: Tensor, mean: Tensor, square: Tensor) -> tuple[Tensor, ...]:
    """One step of the Adam optimiser, without bias correction."""
    mean = 0.9 * mean + 0.1 * grad
    square = 0.999 * square + 0.001 * grad * grad
    return weight - 1e-3 * mean / (square.sqrt() + 1e-8), mean, square


def mandelbrot(x: Tensor, y: Tensor) -> Tensor:
    """Sixteen iterations of z*z + c, as the number of those that stayed bounded."""
    re, im, count = x, y, torch.zeros_like(x)
    for _ in range(16):
        re, im = re * re - im * im + x, 2 * re * im + y
        count = count + (re * re + im * im < 4)
        re, im = re.clamp(-4, 4), im.clamp(-4, 4)
    return count


@dataclass(frozen=True)
class Function:
    """`call` applied to the tensors `inputs(n, generator)` makes, of about n elements each."""

    name: str
    call: Callable[..., Tensor | tuple[Tensor, ...]]
    inputs: Callable[[int, torch.Generator], tuple[Tensor, ...]]

    def arguments(self, n: int, seed: int = 0) -> tuple[Tensor, ...]:
        return self.inputs(n, torch.Generator().manual_seed(seed))


Shapes = Callable[[int], tuple[tuple[int, ...], ...]]


def normal(shapes: Shapes) -> Callable[[int, torch.Generator], tuple[Tensor, ...]]:
    return lambda n, g: tuple(torch.randn(*s, generator=g) for s in shapes(n))


def flat(count: int) -> Callable[[int, torch.Generator], tuple[Tensor, ...]]:
    return normal(lambda n: ((n,),) * count)


def rows(n: int, width: int = 1024) -> tuple[int, int]:
    """A matrix of about n elements with rows of `width`."""
    return max(1, n // width), width


def options(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    spot, strike, years = (torch.rand(n, generator=g) for _ in range(3))
    return 10 + 90 * spot, 10 + 90 * strike, 0.1 + 2 * years


def adam_state(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    weight, grad, mean, square = (torch.randn(n, generator=g) for _ in range(4))
    return weight, grad, mean, square.square()


def classes(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    r, c = rows(n)
    return torch.randn(r, c, generator=g), torch.randint(c, (r,), generator=g)


def plane(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    return 3 * torch.rand(n, generator=g) - 2, 3 * torch.rand(n, generator=g) - 1.5


FUNCTIONS = {
    f.name: f
    for f in (
        Function("chain", chain, flat(2)),
        Function("fifteen", fifteen, flat(3)),
        Function("black_scholes", black_scholes, options),
        Function("mandelbrot", mandelbrot, plane),
        Function("adam", adam, adam_state),
        Function("gelu_bias", gelu_bias, normal(lambda n: (rows(n), (1024,)))),
        Function("softmax", softmax, normal(lambda n: (rows(n),))),
        Function("softmax_bias", softmax_bias, normal(lambda n: (rows(n), (1024,)))),
        Function("layer_norm", layer_norm, normal(lambda n: (rows(n), (1024,), (1024,)))),
        Function("rms_norm", rms_norm, normal(lambda n: (rows(n), (1024,)))),
        Function("column_sum", column_sum, normal(lambda n: (rows(n),))),
        Function("variance", variance, normal(lambda n: (rows(n),))),
        Function("mean_square_error", mean_square_error, flat(2)),
        Function("cross_entropy", cross_entropy, classes),
        Function("transpose_add", transpose_add, normal(lambda n: (rows(n), rows(n)[::-1]))),
        Function("concatenate", concatenate, normal(lambda n: (rows(n), rows(n)))),
    )
}
