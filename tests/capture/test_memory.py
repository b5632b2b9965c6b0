"""A walk leaves nothing behind, whether it ends well or not."""

import gc
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dlc import _C, CaptureError
from tests.capture.graphs import graphs


def resident() -> int:
    """Kilobytes."""
    return 4 * int(Path("/proc/self/statm").read_text().split()[1])


def layer(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.dropout(F.layer_norm(F.gelu(F.linear(x, w, b)), (8,), b, b)).softmax(-1)


@pytest.mark.in_turn(3)
def test_objects_and_memory() -> None:
    """Of three rounds the quietest: a leak shows in each, the garbage of earlier tests goes in one."""
    (gm,) = graphs(layer, torch.randn(4, 8), torch.randn(8, 8), torch.randn(8), dynamic=True)
    rounds = []
    for count in (20, 300, 300, 300):
        for _ in range(count):
            _C.walk(gm)
        gc.collect()
        rounds.append((len(gc.get_objects()), sys.getrefcount(None), resident()))
    objects, none, kilobytes = (
        min(abs(after - before) for before, after in pairwise(column)) for column in zip(*rounds, strict=True)
    )
    assert objects <= 2
    assert none <= 20
    assert kilobytes < 2000


def test_refused_graphs() -> None:
    (gm,) = graphs(lambda x: x.exp().cumsum(0).to_sparse(), torch.randn(4, 8))
    with pytest.raises(CaptureError):
        _C.walk(gm)
    targets = [n.target for n in gm.graph.nodes if n.op == "call_function"]
    gc.collect()  # what earlier tests left holds the same functions
    counts = [sys.getrefcount(t) for t in targets]
    for _ in range(300):
        with pytest.raises(CaptureError):
            _C.walk(gm)
    gc.collect()
    assert [sys.getrefcount(t) for t in targets] == counts
