"""Torch's optimisers, every sample of settings: some steps, eager against compiled."""

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db

from tests.ops.check import SEED, Way, compare, first_line
from tests.ops.modules import Compiler, same
from tests.tolerance import double

STEPS = 10


@dataclass(frozen=True)
class OptimiserEntry:
    """An entry of optim_db: the weights of a small network after some steps."""

    info: OptimizerInfo

    @property
    def full_name(self) -> str:
        return f"optimiser {self.info.optim_cls.__name__}"

    def samples(self, way: Way) -> list[Any]:
        return self.info.optim_inputs_func(device="cpu")

    def failure(self, sample: Any, way: Way, compiler: Compiler) -> str | None:
        run = functools.partial(self.weights, sample)
        try:
            eager = run(same)
        except Exception:
            return None
        try:
            compare(run(compiler), eager, lambda: run(same, double), True)
        except Exception as error:
            return f"{type(error).__name__}: {first_line(error)}"
        return None

    def weights(self, sample: Any, compiler: Compiler, as_dtype: Compiler = same) -> list[Tensor]:
        torch.manual_seed(SEED)
        of_two = self.info.optim_cls.__name__ == "Muon"
        shapes = [(5, 4), (3, 5)] if of_two else [(5, 4), (5,), (3, 5), (3,)]
        weights = [nn.Parameter(as_dtype(torch.randn(shape))) for shape in shapes]
        optimiser = self.info.optim_cls(weights, **copy.deepcopy(sample.kwargs))
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
            if self.info.step_requires_closure:
                optimiser.step(closure)
                continue
            for weight, gradient in zip(weights, draw, strict=True):
                sparse = self.info.only_supports_sparse_grads
                weight.grad = gradient.to_sparse() if sparse else gradient.clone()
            step()
        return [w.detach() for w in weights]


def optimiser_entries() -> Iterator[OptimiserEntry]:
    return map(OptimiserEntry, optim_db)
