"""NumPy's meaning for dlc.jit: functions that are called with arrays compute what NumPy computes."""

from .capture import Arrays, is_numpy
from .draws import Generator
from .value import Array

__all__ = ["Array", "Arrays", "Generator", "is_numpy"]
