"""Torch's databases of modules and optimisers: eager against compiled.

A run takes one sample of each entry, a module either in training or in evaluation, chosen by the seed;
with --all-samples it takes all.
"""

import copy
import functools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db

from tests.ops.check import SEED, arranged, compare, derived
from tests.tolerance import double

STEPS = 10
Compiler = Callable[..., Any]


def picked(request: pytest.FixtureRequest, name: str, samples: list[Any]) -> list[Any]:
    if request.config.getoption("--all-samples") or not samples:
        return samples
    return [random.Random(f"{SEED}/{name}").choice(samples)]


def same(value: Any) -> Any:
    return value


# ---- modules ----


def module_inputs(info: ModuleInfo, training: bool) -> list[ModuleInput]:
    torch.manual_seed(SEED)
    made = info.module_inputs_func(info, "cpu", torch.float32, requires_grad=True, training=training)
    return [sample for sample in made if sample.forward_input is not None]


def module_step(
    info: ModuleInfo, sample: ModuleInput, training: bool, compiler: Compiler, as_dtype: Compiler = same
) -> Any:
    """The result, the gradients of weights and inputs, and the buffers afterwards."""
    torch.manual_seed(SEED)
    module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    module = module.to(as_dtype(torch.zeros(1)).dtype).train(training)
    forward = sample.forward_input
    args, kwargs = as_dtype(copy.deepcopy(arranged((forward.args, dict(forward.kwargs)), "contiguous")))
    torch.manual_seed(SEED)
    result = compiler(module)(*args, **kwargs)
    weights = [p for p in module.parameters() if p.requires_grad]
    return result, derived(result, (args, kwargs, weights)), [b.clone() for b in module.buffers()]


def doubled(tree: Any) -> Any:
    return arranged(double(tree), "contiguous")


@pytest.mark.parametrize("info", module_db, ids=lambda info: info.formatted_name)
def test_module(info: ModuleInfo, compiler: Compiler, request: pytest.FixtureRequest) -> None:
    for training in picked(request, info.name, [True, False]):
        for sample in picked(request, f"{info.name}/{training}", module_inputs(info, training)):
            step = functools.partial(module_step, info, sample, training)
            compare(step(compiler), step(same), lambda step=step: step(same, doubled), True)


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
