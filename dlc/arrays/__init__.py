"""NumPy's meaning for dlc.jit: functions that are called with arrays compute what NumPy computes."""

from .capture import Arrays

__all__ = ["Arrays"]
