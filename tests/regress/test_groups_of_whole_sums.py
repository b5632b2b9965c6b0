"""A group of panels that is packed right before it is used has whole sums: of windows along one axis, too."""

import torch
import torch.nn.functional as F
from torch import Tensor

import dlc

PANEL = 9 * 512 * 128  # bytes


def test_a_group_has_one_panel() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return F.conv1d(x, w)

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        x, w = torch.randn(1, 512, 24), torch.randn(512, 512, 9)
        (graph,) = dlc.explain(function, x, w, options={"products": "own", "tier": "tcc"}).graphs
    finally:
        torch.set_num_threads(threads)
    assert graph.workspace < 3 * PANEL
