"""One of two processes of test_collectives.py: python -m tests.models.collectives RANK PORT."""

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves

from dlc.report import collect

WORLD = 2


def reduced(x: Tensor) -> Tensor:
    return functional.all_reduce(x.sin() * 2, "sum", list(range(WORLD))) + 1


def gathered(x: Tensor) -> Tensor:
    return functional.all_gather_tensor(x.exp(), 0, list(range(WORLD))).softmax(0)


def scattered(x: Tensor) -> Tensor:
    return functional.reduce_scatter_tensor(x * x, "avg", 0, list(range(WORLD))) - 1


def several(x: Tensor) -> tuple[Tensor, Tensor]:
    """Their order does not follow from data."""
    world = list(range(WORLD))
    a = functional.all_reduce(x.sin(), "sum", world)
    b = functional.all_reduce(x.cos().sum(1), "max", world)
    return b * 2, a - 1


def check(function: Any, x: Tensor, calls: int) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="dlc", fullgraph=True, options={"strict": True})
    with collect() as reports, torch.no_grad():
        for _ in range(3):
            for mine, theirs in zip(tree_leaves(compiled(x)), tree_leaves(function(x)), strict=True):
                torch.testing.assert_close(mine, theirs)
    (report,) = reports
    names = [target for target, _, _ in report["calls"]]
    assert len([name for name in names if "c10d" in name]) == calls, names
    assert report["kernel_count"] >= 1


def train(x: Tensor, compiled: bool) -> list[Tensor]:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4)))
    call = torch.compile(model, backend="dlc", options={"strict": True}) if compiled else model
    for _ in range(2):
        call(x).square().mean().backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def main(rank: int, port: int) -> None:
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    x = torch.linspace(-1, 1, 32).view(4, 8).clone() * (rank + 1)
    check(reduced, x, 2)
    check(gathered, x, 2)
    check(scattered, x, 2)
    check(several, x, 4)
    for mine, theirs in zip(train(x, True), train(x, False), strict=True):
        torch.testing.assert_close(mine, theirs)
    dist.barrier()
    dist.destroy_process_group()
    print("done", rank, flush=True)
    # torch keeps gloo's threads for as long as the process lives once a functional collective or DDP has run,
    # with eager alone too. One that drops the last tensor of its work while the interpreter ends asks for
    # its lock, and std::terminate follows (pull request 179291 of pytorch/pytorch).
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
