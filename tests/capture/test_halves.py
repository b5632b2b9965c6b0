"""Arithmetic in f16 and bf16 with numbers: eager's bits, for every number of the dtype.

Eager rounds a number to the dtype first for some operators and not for others, and rounds between the
steps of some. Where its vectors and its scalars differ (a factor of a sum), the vectors count.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.tolerance import assert_same_bits

C, BIG = 0.3, 1001  # no numbers of either dtype, or of bf16
SCALAR = torch.tensor(C)

OPERATORS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add": lambda x, y: (x + C, C + x, x + BIG, x + SCALAR),
    "add alpha": lambda x, y: (torch.add(x, y, alpha=C), torch.add(x, C, alpha=1.7), x.add(SCALAR, alpha=C)),
    "sub": lambda x, y: (x - C, C - x, x - SCALAR, torch.sub(x, y, alpha=C), torch.rsub(x, y, alpha=C)),
    "add_": lambda x, y: (x.clone().add_(C), x.clone().sub_(y, alpha=C)),
    "mul": lambda x, y: (x * C, C * x, x * BIG, x * SCALAR, SCALAR * x),
    "div": lambda x, y: (x / C, C / x, x / BIG, x / SCALAR, SCALAR / x),
    "quotients": lambda x, y: (x // C, x // SCALAR, torch.div(x, C, rounding_mode="trunc")),
    "quotients of tensors": lambda x, y: (x // y, torch.div(x, y, rounding_mode="trunc")),
    "pow": lambda x, y: (x**C, C**x, x**SCALAR, x**2, x**3, x**-1, x**-2),
    "roots": lambda x, y: (x**0.5, x**-0.5),
    "comparisons": lambda x, y: (x < C, x >= C, x == C, x != BIG, x > SCALAR),
    "where": lambda x, y: (torch.where(x > 0, x, C), torch.where(x > 0, C, x), x.masked_fill(x > 0, C)),
    "clamp": lambda x, y: (x.clamp(-C, C), x.clamp_min(C), x.clamp_max(BIG), F.hardtanh(x, -C, C)),
    "addcmul": lambda x, y: (x.addcmul(y, SCALAR), x.addcmul(y, x.sign()), x.addcdiv(x, y)),
    "thresholds": lambda x, y: (F.threshold(x, C, 0.7), F.leaky_relu(x, C), F.hardshrink(x, C)),
    "exponential": lambda x, y: (F.elu(x, C), F.selu(x), F.softplus(x, C)),
    "logit": lambda x, y: (torch.logit(x, 0.01), torch.logit(x)),
    "xlogy": lambda x, y: (torch.xlogy(C, x), torch.xlogy(x, C), torch.xlogy(x, y)),
    "copysign": lambda x, y: (torch.copysign(x, -C), torch.atan2(x, SCALAR), torch.full_like(x, C)),
    "nextafter": lambda x, y: torch.nextafter(x, y),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_bits_are_eager_s(name: str, dtype: torch.dtype, compiler: Callable[..., Any]) -> None:
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    y = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(1))]
    with torch.no_grad():
        mine = compiler(OPERATORS[name], options={"tier": "tcc"})(x, y)
        theirs = OPERATORS[name](x, y)
    mine, theirs = (r if isinstance(r, tuple) else (r,) for r in (mine, theirs))
    for k, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        assert_same_bits(a, b, f"result {k}")


@pytest.mark.parametrize("name", ["add", "mul", "div"])
def test_numbers_known_at_run_time(name: str, compiler: Callable[..., Any]) -> None:
    function = getattr(torch, name)
    x = torch.randn(1024, dtype=torch.bfloat16)
    fast = compiler(lambda x, c: function(x, c), dynamic=True)
    for c in (0.3, 1.7, 1001.0):
        assert_same_bits(fast(x, c), function(x, c))
