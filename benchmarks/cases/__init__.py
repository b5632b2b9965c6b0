"""The functions of `python -m benchmarks kernels`."""

import torch

from benchmarks.cases import images, layout, norms, pointwise
from benchmarks.cases.case import SIZES, Case

__all__ = ["CASES", "IMAGES", "SIZES", "Case"]

SINGLE = (*pointwise.CASES, *norms.CASES, *layout.CASES)
NARROW = ("chain", "gelu_residual", "swiglu", "softmax", "layer_norm", "rotary", "var of axis 2")
WIDE = ("chain", "black_scholes", "softmax", "var of axis 0", "mean of axis 2")

CASES = (
    *SINGLE,
    *(c.of(torch.bfloat16) for c in SINGLE if c.name in NARROW),
    *(c.of(torch.float64) for c in SINGLE if c.name in WIDE),
)

IMAGES = images.CASES
