"""The compiler in C, as all of the package calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _C
from .options import Options, say_failure

#: While dlc.save_repro runs, what it does with a compiled graph, its options, report and frozen inputs.
take: Callable[[Any, Options, dict[str, Any], list[int]], Any] | None = None


def compile_with(options: Options, graph: Any, fallback: Any, **kwargs: Any) -> Any:
    """_C.compile with the options; then a C compiler that has failed is told of."""
    if take is not None and kwargs.get("report") is None:
        kwargs["report"] = {}
    try:
        compiled = _C.compile(graph, fallback, **options.compiler_arguments(), **kwargs)
    except _C.InternalError as error:
        from .repro import of_fault

        of_fault(error, options, kwargs.get("frozen") or [])
        raise
    finally:
        say_failure()
    return compiled if take is None else take(compiled, options, kwargs["report"], kwargs.get("frozen") or [])
