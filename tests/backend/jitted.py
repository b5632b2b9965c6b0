"""A small function, and dlc.jit as its tests call it."""

from collections.abc import Callable
from typing import Any

import torch

import dlc


def little(x: Any, y: Any) -> Any:
    return torch.relu(x * 2 + y)


def jit(fn: Callable[..., Any], **options: Any) -> Any:
    return dlc.jit(fn, **({"tier": "tcc"} | options))
