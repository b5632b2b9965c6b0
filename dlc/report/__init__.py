"""dlc.explain: what became of a function.

``model.py`` is what a report says, ``gather.py`` and ``steps.py`` make it, ``text.py``, ``page.py`` and
``perfetto.py`` show it, ``command.py`` is ``python -m dlc explain``.
"""

from __future__ import annotations

from .command import add_command
from .gather import collect, explain
from .model import Graph, Report

__all__ = ["Graph", "Report", "add_command", "collect", "explain"]
