"""Random numbers that a graph draws into a tensor: x.uniform_(0, 1).

A graph that is taken directly has no writes: `drawn` makes the tensor that x becomes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def drawn(
    method: str,
    dtype: torch.dtype,
    sizes: tuple[int, ...],
    strides: tuple[int, ...],
    *args: Any,
    **kwargs: Any,
) -> Tensor:
    """A new tensor of these sizes and strides, on which the method has drawn as on any other one."""
    made = torch.empty_strided(sizes, strides, dtype=dtype)
    result: Tensor = getattr(made, method)(*args, **kwargs)
    return result
