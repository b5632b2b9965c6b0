"""A torch.compile backend for the CPU, written in C.

``torch.compile(model, backend="dlc")`` needs no import of this package.  What is here looks into it:

>>> dlc.explain(fn, *args)      # which kernels there are, what is not compiled and why
>>> dlc.counters()              # what happened since the process began
>>> dlc.wait()                  # until the background compiles are done
>>> dlc.ir.parse(text)          # the language itself, on NumPy arrays
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dlc._C import CaptureError, InternalError, ParseError, counters, release

from . import ir

if TYPE_CHECKING:
    from .explain import Report

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


def wait(timeout: float | None = None) -> bool:
    """Wait until no background compile is under way and every finished kernel is in use.

    timeout: seconds; None waits as long as it takes.  Returns False when the time ran out.
    """
    from dlc import _C

    return _C.wait(-1.0 if timeout is None else timeout)


def reset() -> None:
    """Forget all compiled code: the next call of a compiled function compiles again."""
    import torch._dynamo

    torch._dynamo.reset()


def explain(fn: Any, *args: Any, **kwargs: Any) -> Report:
    """Compile fn for these arguments, run it once, and report what became of its graphs.

    The report prints in a terminal and in a notebook: graphs, kernels, operators that run eagerly and
    why, the IR after each stage, the C text, and times in seconds.
    """
    from .explain import explain as run

    return run(fn, *args, **kwargs)
