"""What dlc is compared with, and how each is made to compile a function and is given time to settle."""

import shutil
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

Compile = Callable[[Any], Callable[..., Any]]


def nothing(graph: torch.fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
    """A backend that runs the captured graph: what is left is Dynamo's own cost."""
    return graph.forward


def dlc(target: Any, **options: Any) -> Callable[..., Any]:
    return torch.compile(target, backend="dlc", options=options)


PEERS: dict[str, tuple[str, Compile]] = {
    "eager": ("eager", lambda target: target),
    "dynamo": ("Dynamo alone", lambda target: torch.compile(target, backend=nothing)),
    "aot_eager": ("aot_eager", lambda target: torch.compile(target, backend="aot_eager")),
    "tcc": ("dlc (libtcc)", lambda target: dlc(target, tier="tcc")),
    "dlc": ("dlc (settled)", dlc),
    "inductor": ("TorchInductor", lambda target: torch.compile(target, backend="inductor")),
}


def available(names: Iterable[str]) -> list[str]:
    """Those of the peers that can run here; `xla` needs jax, `inductor` a C++ compiler."""
    missing = set()
    if not any(map(shutil.which, ("g++", "clang++", "c++"))):
        missing.add("inductor")
    try:
        import jax  # noqa: F401
    except ImportError:
        missing.add("xla")
    return [name for name in names if name not in missing]


def label(name: str) -> str:
    return "XLA:CPU" if name == "xla" else PEERS[name][0]


def own_code(target: Any) -> Any:
    """A copy of a function with a code object of its own, on which Dynamo keeps what it compiled.

    Else one peer's calls would pass over the other's entries first.
    """
    if isinstance(target, nn.Module):
        return target
    return types.FunctionType(
        target.__code__.replace(), target.__globals__, target.__name__, target.__defaults__
    )


def compiled(name: str, target: Any) -> Callable[..., Any]:
    return PEERS[name][1](own_code(target))


def settle(name: str) -> None:
    """Returns when nothing compiles in the background any more."""
    if name == "dlc":
        import dlc

        dlc.wait()


def ready(name: str, target: Any, inputs: tuple[Any, ...]) -> Callable[[], Any]:
    """A call of the compiled target on the inputs, already compiled and settled."""
    run = compiled(name, target)

    def call() -> Any:
        with torch.no_grad():
            return run(*inputs)

    for _ in range(2):
        call()
        settle(name)
    return call
