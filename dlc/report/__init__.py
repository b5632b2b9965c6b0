"""dlc.explain: what became of a function.

``model.py`` is what a report says, ``gather.py`` and ``steps.py`` make it, ``text.py``, ``page.py`` and
``perfetto.py`` show it, ``command.py`` is ``python -m dlc explain``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .command import add_command

if TYPE_CHECKING:
    from .gather import collect, explain
    from .model import Graph, Report

__all__ = ["Graph", "Report", "add_command", "collect", "explain"]
_OF_TORCH = {"Graph": "model", "Report": "model", "collect": "gather", "explain": "gather"}


def __getattr__(name: str) -> Any:
    """Imported when it is wanted: the commands of dlc work without torch."""
    if name in _OF_TORCH:
        return getattr(import_module(f"dlc.report.{_OF_TORCH[name]}"), name)
    raise AttributeError(f"module 'dlc.report' has no attribute {name!r}")
