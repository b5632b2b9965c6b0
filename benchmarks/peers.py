"""What dlc is compared with, and how each is made to compile a function and is given time to settle."""

import copy
import functools
import importlib.util
import shutil
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from benchmarks.direct import DIRECT

Compile = Callable[..., Callable[..., Any]]


def nothing(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
    """A backend that runs the captured graph: what is left is Dynamo's own cost."""
    return graph.forward


def kept(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., list[Any]]:
    """A backend whose results are those of the first call, in every call: what is left is a call's floor.

    Not those of the example inputs, which hold nothing under AOTAutograd.
    """
    results: list[Any] = []

    def call(*arguments: Any) -> list[Any]:
        if not results:
            results.extend(graph.forward(*arguments))
        return results

    return call


def kept_boxed(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., list[Any]]:
    """The same under AOTAutograd, as aliases: what was an output has a gradient's function already."""
    call = kept(graph, inputs)

    def aliases(*arguments: Any) -> list[Any]:
        return [r.detach() if isinstance(r, torch.Tensor) else r for r in call(*arguments)]

    return make_boxed_func(aliases)


def backend(backend: Any, **options: Any) -> Compile:
    """torch.compile with a backend; `dynamic` is passed on."""
    given = {"options": options} if options else {}
    return lambda target, **how: torch.compile(target, backend=backend, **given, **how)


def openvino(target: Any, **how: Any) -> Callable[..., Any]:
    import openvino.torch  # noqa: F401 - its import registers the backend

    return torch.compile(target, backend="openvino", **how)


def channels_last(x: Any) -> Any:
    """The same, with its channels innermost in memory if it is an image or a video."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if isinstance(x, nn.Module):
        return copy.deepcopy(x).apply(channels_last_weights)
    images = isinstance(x, torch.Tensor) and x.dim() in formats
    return x.contiguous(memory_format=formats[x.dim()]) if images else x


def channels_last_weights(module: nn.Module) -> None:
    for weight in module.parameters(recurse=False):
        weight.data = channels_last(weight.data)


def tuned(target: Any, **how: Any) -> Callable[..., Any]:
    """With a cache folder of its own: kernels that dlc (settled) shared with it would be tuned as well."""
    from dlc import cache

    folder = cache.folder()
    options = {"tune": True} | ({"cache": f"{folder}-tuned"} if folder else {})
    return torch.compile(target, backend="dlc", options=options, **how)


PEERS: dict[str, tuple[str, Compile]] = {
    "eager": ("eager", lambda target, **how: target),
    "last": ("eager, channels last", lambda target, **how: channels_last(target)),
    "dynamo": ("Dynamo alone", backend(nothing)),
    "floor": ("a tensor that is ready", backend(kept)),
    "floor_train": (
        "tensors that are ready",
        backend(aot_autograd(fw_compiler=kept_boxed, inference_compiler=kept_boxed)),
    ),
    "aot_eager": ("aot_eager", backend("aot_eager")),
    "tcc": ("dlc (libtcc)", backend("dlc", tier="tcc")),
    "dlc": ("dlc (settled)", backend("dlc")),
    "sizes": ("dlc, sizes that change", backend("dlc")),
    "tuned": ("dlc (tuned)", tuned),
    "frozen": ("dlc (frozen)", backend("dlc", freeze=True)),
    "library": ("dlc (library's products)", backend("dlc", products="library")),
    "inductor": ("TorchInductor", backend("inductor")),
    "freezing": ("TorchInductor (freezing)", backend("inductor", freezing=True)),
    "openvino": ("OpenVINO", openvino),
    "warm": ("dlc, second process", backend("dlc")),
}
MODULES = {"xla": "jax", "openvino": "openvino"}  # what a peer needs


def available(names: Iterable[str]) -> list[str]:
    """Those of the peers that can run here: `inductor` needs a C++ compiler, others a module."""
    missing = {name for name, module in MODULES.items() if importlib.util.find_spec(module) is None}
    if not any(map(shutil.which, ("g++", "clang++", "c++"))):
        missing |= {"inductor", "freezing"}
    return [name for name in names if name not in missing]


def label(name: str) -> str:
    return "XLA:CPU" if name == "xla" else (DIRECT.get(name) or PEERS[name])[0]


def own_code(target: Any) -> Any:
    """A copy of a function with a code object of its own, on which Dynamo keeps what it compiled.

    Else one peer's calls would pass over the other's entries first.
    """
    if isinstance(target, nn.Module):
        return target
    return types.FunctionType(
        target.__code__.replace(), target.__globals__, target.__name__, target.__defaults__
    )


def compiled(name: str, target: Any, dynamic: bool | None = None) -> Callable[..., Any]:
    return PEERS[name][1](own_code(target), dynamic=dynamic)


def settle(name: str) -> None:
    """Returns when nothing compiles in the background any more."""
    if name in ("dlc", "frozen", "library", "warm", *DIRECT):
        import dlc

        dlc.wait()


def ready(
    name: str, target: Any, inputs: tuple[Any, ...], through: Callable[..., Any] | None = None
) -> Callable[[], Any]:
    """A call of the compiled target on the inputs, already compiled and settled.

    It is C from its first instruction on, so that what is measured is the call and nothing of ours.
    Gradients are recorded, or not, as where it is called. through: called with the compiled target and
    the inputs, where one call of the target is not all that is wanted.
    """
    if name in DIRECT:
        run, inputs = DIRECT[name][1](own_code(target), inputs)
    else:
        inputs = tuple(map(channels_last, inputs)) if name == "last" else inputs
        run = compiled(name, target)
    call = functools.partial(through, run, inputs) if through else functools.partial(run, *inputs)
    for _ in range(2):
        call()
        settle(name)
    return call
