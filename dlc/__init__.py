"""A torch.compile backend for the CPU, written in C.

``torch.compile(model, backend="dlc")`` needs no import of this package.  What is here looks into it:

>>> dlc.explain(fn, *args)      # which kernels there are, what is not compiled and why
>>> dlc.counters()              # what happened since the process began
>>> dlc.wait()                  # until the background compiles are done
>>> dlc.ir.parse(text)          # the language itself, on NumPy arrays
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._C import CaptureError, InternalError, ParseError, counters, release
from ._C import wait as _wait

if TYPE_CHECKING:
    from . import ir
    from .report import Report

__version__ = "0.1.0"
__all__ = [
    "CaptureError",
    "InternalError",
    "ParseError",
    "counters",
    "explain",
    "ir",
    "release",
    "reset",
    "wait",
]


def __getattr__(name: str) -> Any:
    if name == "ir":  # imports NumPy, which the backend does not need
        return import_module("dlc.ir")
    raise AttributeError(f"module 'dlc' has no attribute {name!r}")


def wait(timeout: float | None = None) -> bool:
    """Wait until no background compile is under way and every finished kernel is in use.

    timeout: seconds; None waits as long as it takes.  Returns False when the time ran out.
    """
    return _wait(-1.0 if timeout is None else timeout)


def reset() -> None:
    """Forget all compiled code: the next call of a compiled function compiles again."""
    import torch._dynamo

    torch._dynamo.reset()


def explain(fn: Any, *args: Any, **kwargs: Any) -> Report:
    """Compile fn for these arguments, run it once, and report what became of its graphs.

    The report prints in a terminal and in a notebook: graphs, kernels, operators that run eagerly and
    why, the IR after each stage, the C text, and times in seconds.
    """
    from .report import report

    return report(fn, *args, **kwargs)
