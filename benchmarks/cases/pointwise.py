"""One result element from the elements at the same place."""

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.cases.case import Case, case, flat, known, normal, rows, uniform


def gelu_residual(x: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return F.gelu(x + bias) + residual


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate) * up


def mish(x: Tensor) -> Tensor:
    return F.mish(x)


def softplus(x: Tensor) -> Tensor:
    return F.softplus(x)


def logit(x: Tensor) -> Tensor:
    return torch.logit(x)


def erfinv(x: Tensor) -> Tensor:
    return torch.erfinv(x)


def sines(x: Tensor) -> Tensor:
    return torch.sin(x) * torch.cos(x) + torch.sin(2 * x)


def cartpole(state: Tensor, force: Tensor) -> tuple[Tensor, Tensor]:
    """A step of carts that balance poles: their next states, and which of them have failed."""
    x, speed, angle, turning = state.unbind(-1)
    sine, cosine = torch.sin(angle), torch.cos(angle)
    push = (10 * force + 0.05 * turning.square() * sine) / 1.1
    twist = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine.square() / 1.1))
    pull = push - 0.05 * twist * cosine / 1.1
    x, angle = x + 0.02 * speed, angle + 0.02 * turning
    after = torch.stack([x, speed + 0.02 * pull, angle, turning + 0.02 * twist], dim=-1)
    return after, (x.abs() > 2.4) | (angle.abs() > 0.2095)


def adam_of_100(*tensors: Tensor) -> None:
    """A step of Adam in place, on a hundred parameters, as torch.optim writes it."""
    weights, grads, means, squares = (list(tensors[k::4]) for k in range(4))
    torch._foreach_lerp_(means, grads, 0.1)
    torch._foreach_mul_(squares, 0.999)
    torch._foreach_addcmul_(squares, grads, grads, 0.001)
    roots = torch._foreach_sqrt(squares)
    torch._foreach_add_(roots, 1e-8)
    torch._foreach_addcdiv_(weights, means, roots, -1e-3)


def hundred(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    return tuple(torch.rand(max(1, n // 100), generator=g) for _ in range(400))


CASES: tuple[Case, ...] = (
    *map(known, ("chain", "fifteen", "black_scholes", "mandelbrot", "adam", "gelu_bias")),
    case(gelu_residual, normal(lambda n: (rows(n), rows(n)[1:], rows(n)))),
    case(swiglu, flat(2)),
    case(mish, flat(1)),
    case(softplus, flat(1)),
    case(logit, uniform(0.001, 0.999)),
    case(erfinv, uniform(-0.999, 0.999)),
    case(sines, flat(1)),
    case(cartpole, normal(lambda n: ((n // 4, 4), (n // 4,)))),
    case(adam_of_100, hundred),
)
