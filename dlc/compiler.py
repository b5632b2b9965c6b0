"""The compiler in C, as all of the package calls it."""

from __future__ import annotations

from typing import Any

from . import _C
from .options import Options, say_failure


def compile_with(options: Options, graph: Any, fallback: Any, **kwargs: Any) -> Any:
    """_C.compile with the options; then a C compiler that has failed is told of."""
    try:
        return _C.compile(graph, fallback, **options.compiler_arguments(), **kwargs)
    finally:
        say_failure()
