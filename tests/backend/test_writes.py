"""Writes to parts of arrays against eager: random programs, in every layout, on both tiers.

What they store is tests/structure/test_writes.py's.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import dlc
from tests.backend.random_writes import Program, arguments, function

LAYOUTS = ["dense", "stepped", "transposed", "one"]
EACH = 12


def check(fn: Callable[..., object], args: list[Tensor], others: list[Tensor], **options: object) -> None:
    """Two calls; arguments are compared too."""
    torch._dynamo.reset()
    dynamic = options.pop("dynamic", False)
    compiled = torch.compile(fn, backend="dlc", options={"strict": True, **options}, dynamic=dynamic)
    with torch.no_grad():
        for _ in range(2):
            want, got = fn(*others), compiled(*args)
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5, equal_nan=True)
            torch.testing.assert_close(args, others, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int, layout: str, tier: str) -> None:
    for k in range(EACH):
        number = 1000 * seed + k
        text = Program(number).text
        args, others = arguments(layout, number), arguments(layout, number)
        rng = random.Random(number)
        dynamic, capture = rng.random() < 0.5, rng.choice(("auto", "aot"))
        try:
            check(function(text), args, others, tier=tier, dynamic=dynamic, capture=capture, verify=True)
        except Exception as error:
            raise AssertionError(f"{text}\n{dynamic=} {capture=}") from error


def late_view(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """The view is read after the write to its base, and shows it."""
    z = x.exp()
    v = z[2:4]
    z[3] = 0.0
    return z, v * 2


def old_value(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x.exp()
    old = z + 0
    z[3] = 0.0
    return z, old.flip(0)


def promoted(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x.to(torch.float16)
    z[1:3] = y[1:3]
    z[4] = 7
    z[5:] += y[5:] > 0.5
    return (z,)


def shifted(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    x[1:] = x[:-1] * 1.0
    x[:-2] = x[2:] * 1.0
    return (x.sum(0),)


def elimination(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x.clone()
    for k in range(4):
        z[k + 1 :, k] /= z[k, k] + 1
        z[k + 1 :, k + 1 :] -= z[k + 1 :, k, None] * z[k, k + 1 :]
    return (z,)


def waves(x: Tensor, y: Tensor) -> None:
    for _ in range(3):
        x[1:-1, 1:-1] += 0.1 * (x[:-2, 1:-1] + x[2:, 1:-1] - 2 * y[1:-1, 1:-1])
        x[0], x[-1] = x[1] * 1.0, x[-2] * 1.0
        x[:, 0] = x[:, 1] * 1.0
        y[2:5] -= x[2:5]


def nothing(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x * 2
    z[4:4] = 1.0
    z[2:2, 3:] += 1.0
    return (z,)


def two_of_one(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Two values are the same one with other parts replaced: only one takes its memory."""
    z = x.exp()
    a, b = z.clone(), z.clone()
    a[0], b[1] = 0.0, 1.0
    return a, b


def called(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """A library's operator takes the value before and after it is written to."""
    z = x.exp()
    before = torch.linalg.vector_norm(z, ord=3)
    z[0] = before
    return torch.linalg.vector_norm(z, ord=3), z


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("tier", ["tcc", "gcc"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "fn",
    [late_view, old_value, promoted, shifted, elimination, waves, nothing, two_of_one, called],
    ids=lambda fn: fn.__name__,
)
def test_as_eager(fn: Callable[..., object], layout: str, tier: str) -> None:
    args, others = arguments(layout, 5)[:2], arguments(layout, 5)[:2]
    check(fn, args, others, tier=tier, dynamic=layout == "dense")


def test_what_the_backward_needs_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()

    def loss(x: Tensor, y: Tensor) -> Tensor:
        z = x.exp()
        w = z.clone()
        w[1:3] = y[1:3]
        w[0] = w[4] * 2
        return (z * w).sum()

    grads = []
    for fn in (loss, torch.compile(loss, backend="dlc", options={"tier": "tcc", "strict": True})):
        args = [t.requires_grad_() for t in arguments("dense", 3)[:2]]
        fn(*args).backward()
        grads.append([t.grad for t in args])
    torch.testing.assert_close(*grads)


def test_the_memory_of_a_workspace_is_that_of_one_value(capfd: pytest.CaptureFixture[str]) -> None:
    torch._dynamo.reset()

    def chain(x: Tensor) -> Tensor:
        z = x.exp()
        for k in range(6):
            z[k] = z[k + 1] * 2
            z[:, k] += 1.0
        return z.sum(0)

    options = {"tier": "tcc", "strict": True, "dump": "plan"}
    with torch.no_grad():
        torch.compile(chain, backend="dlc", options=options)(torch.rand(40, 50))
    plan = capfd.readouterr().err
    assert len(re.findall(r": work f32\[40, 50\]", plan)) == 1


def life(x: np.ndarray, steps: int) -> np.ndarray:
    x = x.copy()
    for _ in range(steps):
        near = np.zeros(x.shape)
        near[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        near[1:-1, 1:-1] += x[:-2, :-2] + x[:-2, 2:] + x[2:, :-2] + x[2:, 2:]
        x[...] = (near == 3) | ((near == 2) & (x > 0))
    return x


def heat(x: np.ndarray, steps: int) -> np.ndarray:
    x = x.copy()
    for _ in range(steps):
        x[1:-1, 1:-1] += 0.1 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1])
        x[0] = x[1]
        x[:, -1] = 0.0
    return x


def factors(x: np.ndarray, steps: int) -> np.ndarray:
    x = x + 9 * np.eye(9)
    for k in range(steps):
        x[k + 1 :, k] /= x[k, k]
        x[k + 1 :, k + 1 :] -= x[k + 1 :, k, None] * x[k, k + 1 :]
    return x


@pytest.mark.in_turn(3)
@pytest.mark.parametrize("fn", [life, heat, factors], ids=lambda fn: fn.__name__)
def test_numpy_programs(fn: Callable[..., np.ndarray]) -> None:
    x = np.random.default_rng(3).random((9, 9)).round(1)
    compiled = dlc.jit(fn)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x, 4), fn(x, 4), rtol=1e-12)
    dlc.wait()
    np.testing.assert_allclose(compiled(x, 4), fn(x, 4), rtol=1e-12)
