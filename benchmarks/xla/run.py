"""Calls of jitted functions on copies of torch's tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.cases.case import Case


def twin(case: Case) -> Callable[..., Any] | None:
    """The function of the case's name, with gradients of its sum where the case wants them."""
    import jax

    from benchmarks.xla import layout, norms, pointwise

    name = case.name.removesuffix(" gradients").replace(" ", "_")
    found = (getattr(module, name, None) for module in (pointwise, norms, layout))
    function = next(filter(None, found), None)
    if function is None or not case.train:
        return function

    def gradients(*inputs: Any) -> Any:
        result, back = jax.vjp(function, *inputs)
        return back(jax.numpy.ones_like(result))

    return gradients


def array(x: Tensor) -> Any:
    import jax

    x = x.detach()
    if x.dtype == torch.bfloat16:
        return jax.numpy.asarray(x.float().numpy(), dtype=jax.numpy.bfloat16)
    return jax.numpy.array(x.numpy())


def jitted(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> Callable[[], Any]:
    """A call, already compiled, that returns when its result is there."""
    import jax

    jax.config.update("jax_enable_x64", True)
    compiled, arrays, wait = jax.jit(function), tuple(map(array, inputs)), jax.block_until_ready

    def call() -> Any:
        return wait(compiled(*arrays))

    call()
    return call


def ready(case: Case, inputs: tuple[Tensor, ...]) -> Callable[[], Any] | None:
    function = twin(case)
    return jitted(function, inputs) if function else None


def floor(inputs: tuple[Tensor, ...]) -> Callable[[], Any]:
    """A call that computes nothing."""
    return jitted(lambda *arrays: arrays[0], inputs)
