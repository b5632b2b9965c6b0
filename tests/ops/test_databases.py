"""Torch's databases of modules and optimisers: eager against compiled.

A run takes one sample of each entry, a module either in training or in evaluation, chosen by the seed;
with --all-samples it takes all.
"""

import copy
import functools
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db

from tests.ops import modules
from tests.ops.check import SEED, compare
from tests.ops.modules import Compiler, same
from tests.tolerance import double

STEPS = 10


def picked(request: pytest.FixtureRequest, name: str, samples: list[Any]) -> list[Any]:
    if request.config.getoption("--all-samples") or not samples:
        return samples
    return [random.Random(f"{SEED}/{name}").choice(samples)]


# ---- modules ----


@pytest.mark.parametrize("info", module_db, ids=lambda info: info.formatted_name)
def test_module(info: ModuleInfo, compiler: Compiler, request: pytest.FixtureRequest) -> None:
    for training in picked(request, info.name, [True, False]):
        for sample in picked(request, f"{info.name}/{training}", modules.inputs(info, training)):
            reason = modules.failure(info, sample, training, compiler)
            assert reason is None or modules.is_shared(info, sample, training, reason), reason


# ---- optimisers ----


def optimised(
    info: OptimizerInfo, sample: Any, compiler: Compiler, as_dtype: Compiler = same
) -> list[Tensor]:
    """The weights of a small network after some steps."""
    torch.manual_seed(SEED)
    shapes = [(5, 4), (3, 5)] if info.optim_cls.__name__ == "Muon" else [(5, 4), (5,), (3, 5), (3,)]
    weights = [nn.Parameter(as_dtype(torch.randn(shape))) for shape in shapes]
    settings = copy.deepcopy(sample.kwargs)
    optimiser = info.optim_cls(weights, **settings)
    draws = [[as_dtype(torch.randn(shape)) for shape in shapes] for _ in range(STEPS)]
    now = [draws[0]]

    def closure() -> Tensor:
        loss = sum((w * g).square().sum() for w, g in zip(weights, now[0], strict=True))
        optimiser.zero_grad()
        loss.backward()
        return loss.detach()

    @compiler
    def step() -> None:
        optimiser.step()

    for draw in draws:
        now[0] = draw
        if info.step_requires_closure:
            optimiser.step(closure)
            continue
        for weight, gradient in zip(weights, draw, strict=True):
            sparse = info.only_supports_sparse_grads
            weight.grad = gradient.to_sparse() if sparse else gradient.clone()
        step()
    return [w.detach() for w in weights]


@pytest.mark.parametrize("info", optim_db, ids=lambda info: info.optim_cls.__name__)
def test_optimiser(info: OptimizerInfo, compiler: Compiler, request: pytest.FixtureRequest) -> None:
    samples = info.optim_inputs_func(device="cpu")
    for sample in picked(request, info.optim_cls.__name__, samples):
        run = functools.partial(optimised, info, sample)
        compare(run(compiler), run(same), lambda run=run: run(same, double), True)
