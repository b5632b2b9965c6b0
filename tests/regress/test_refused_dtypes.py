"""What eager has no kernel for is an error, though a formula would give numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

WHOLE = torch.arange(4)
FOLD = torch.arange(16).view(1, 1, 4, 4)
GRID = torch.zeros(1, 2, 2, 2, dtype=torch.int64)
HALF = torch.rand(4, dtype=torch.bfloat16)
CUBE = torch.rand(1, 1, 4, 4, 4, dtype=torch.float16)
CASES: dict[str, Callable[[], Any]] = {
    "celu": lambda: F.celu(WHOLE),
    "prelu": lambda: F.prelu(WHOLE, WHOLE[:1]),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(WHOLE, WHOLE),
    "huber_loss": lambda: F.huber_loss(WHOLE, WHOLE),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(WHOLE, WHOLE),
    "soft_margin_loss": lambda: F.soft_margin_loss(WHOLE, WHOLE),
    "grid_sample": lambda: F.grid_sample(FOLD, GRID, align_corners=False),
    "mvlgamma": lambda: torch.mvlgamma(WHOLE > 1, 1),
    "unfold": lambda: F.unfold(FOLD, 2),
    "fold": lambda: F.fold(FOLD[0], (3, 3), 2),
    "avg_pool3d": lambda: F.avg_pool3d(CUBE, 2),
    "trace": lambda: torch.trace(FOLD[0, 0] > 1),
    "reflection": lambda: F.pad(FOLD > 1, (1, 1), mode="reflect"),
    "replication": lambda: F.pad(FOLD > 1, (1, 1), mode="replicate"),
    "bessel_j0": lambda: torch.special.bessel_j0(HALF),
    "modified_bessel_i0": lambda: torch.special.modified_bessel_i0(HALF),
    "ndtri": lambda: torch.special.ndtri(HALF),
    "erfcx": lambda: torch.special.erfcx(HALF),
    "log_ndtr": lambda: torch.special.log_ndtr(HALF),
}


@pytest.mark.parametrize("capture", ["auto", "aot"])
@pytest.mark.parametrize("name", CASES)
def test_no_kernel(name: str, capture: str, compiler: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError):
        CASES[name]()
    with torch.no_grad(), pytest.raises(RuntimeError):
        compiler(CASES[name], options={"capture": capture})()
