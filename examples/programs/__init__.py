"""Small, readable PyTorch programs: what dlc is shown, measured and tested on.

Nothing here knows about dlc. Weights are random and come from a seed; no file is read.
"""

from examples.programs.functions import FUNCTIONS, Function
from examples.programs.registry import MODELS, Model

__all__ = ["FUNCTIONS", "MODELS", "Function", "Model"]
