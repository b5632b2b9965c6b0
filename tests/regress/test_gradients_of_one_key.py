"""A softmax of one element does not depend on it: what is left of its gradient.

By itself it is exactly 0. Attention takes a sum of gradient * result from a sum of gradient * value, which
have the same terms where there is one key, and another order: roundings of the terms are left, as in eager.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.layouts import case, check

Compiler = Callable[..., Any]
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT * 0.25, -1) @ v


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_of_one_element(dtype: torch.dtype, dynamic: bool, tier: str, compiler: Compiler) -> None:
    def f(x: Tensor, y: Tensor, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        return x.softmax(-1), y.log_softmax(-1), F.softmin(x * y, -1), by_hand(q, k, v)

    shapes = (5, 3, 1), (5, 3, 1), (2, 3, 4, 24), (2, 3, 1, 24), (2, 3, 1, 24)
    inputs = [torch.randn(*shape).to(dtype).requires_grad_() for shape in shapes]
    results = compiler(f, dynamic=dynamic, options={"tier": tier, "products": "own"})(*inputs)
    gradients = torch.autograd.grad(results, inputs[:4], [torch.randn_like(r) for r in results])
    assert [g.abs().max().item() for g in gradients] == [0.0] * 4


@pytest.mark.parametrize("products", ["own", "library"])
@pytest.mark.parametrize("size", [8, 16, 24, 33])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_attention_of_one_key(dtype: torch.dtype, size: int, products: str, compiler: Compiler) -> None:
    """Each of two sums of `size` products is off by that many roundings of its terms, and one more.

    The gradients of score and query are rounded to the dtype too; below its smallest numbers, to a
    multiple of the least of all.
    """
    q, k, v, gradient = (torch.randn(4, 3, 1, size).to(dtype) for _ in range(4))
    q.requires_grad_()
    result = compiler(F.scaled_dot_product_attention, options={"products": products})(q, k, v)
    (left,) = torch.autograd.grad(result, q, gradient)
    terms = (gradient.double() * v.double()).abs().sum(-1, keepdim=True)
    roundings = 2 * (size + 1) * torch.finfo(torch.float32).eps / 2
    eps, least = torch.finfo(dtype).eps, torch.finfo(dtype).eps * torch.finfo(dtype).smallest_normal
    score = roundings * terms * (1 + eps) + least
    assert (left.double().abs() <= score * k.double().abs() / math.sqrt(size) * (1 + eps) + least).all()


def test_rows_of_16_elements() -> None:
    """Those of which eager's two orders are one."""
    assert check(case(126276))
