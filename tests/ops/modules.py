"""Torch's modules, every sample, training and not, eager against compiled."""

import copy
import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db

from tests.layouts import relay
from tests.ops.check import SEED, Way, arranged, compare, derived, first_line
from tests.tolerance import double

Compiler = Callable[..., Any]


def same(value: Any) -> Any:
    return value


def doubled(tree: Any) -> Any:
    return arranged(double(tree), "contiguous")


@dataclass(frozen=True)
class ModuleEntry:
    """An entry of module_db, with gradients of weights and inputs."""

    info: ModuleInfo

    @property
    def full_name(self) -> str:
        return f"module {self.info.formatted_name}"

    def possible(self, way: Way) -> bool:
        return getattr(torch, way.dtype) in self.info.dtypes

    def samples(self, way: Way) -> list[ModuleInput]:
        torch.manual_seed(SEED)
        dtype = getattr(torch, way.dtype)
        made = self.info.module_inputs_func(
            self.info, "cpu", dtype, requires_grad=True, training=way.training
        )
        return [sample for sample in made if sample.forward_input is not None]

    def failure(self, sample: ModuleInput, way: Way, compiler: Compiler) -> str | None:
        """Why the compiled module does not do what eager does; None if it does, or if eager raises."""
        run = functools.partial(self.step, sample, way)
        try:
            eager = run(same)
        except Exception:
            return None
        try:
            compare(run(compiler), eager, lambda: run(same, doubled), True)
        except Exception as error:
            return f"{type(error).__name__}: {first_line(error)}"
        return None

    def step(self, sample: ModuleInput, way: Way, compiler: Compiler, as_dtype: Compiler = same) -> Any:
        """The result, the gradients of weights and inputs, and the buffers afterwards."""
        torch.manual_seed(SEED)
        module = self.info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
        start = torch.zeros(1, dtype=getattr(torch, way.dtype))
        module = module.to(as_dtype(start).dtype).train(way.training)
        forward = sample.forward_input
        if way.layout == "strided" and as_dtype is same:
            relay(module.parameters(), random.Random(SEED))
        args, kwargs = as_dtype(copy.deepcopy(arranged((forward.args, dict(forward.kwargs)), way.layout)))
        torch.manual_seed(SEED)
        result = compiler(module)(*args, **kwargs)
        weights = [p for p in module.parameters() if p.requires_grad]
        return result, derived(result, (args, kwargs, weights)), [b.clone() for b in module.buffers()]


def module_entries() -> Iterator[ModuleEntry]:
    return map(ModuleEntry, module_db)
