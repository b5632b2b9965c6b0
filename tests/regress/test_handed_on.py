"""A mesh of processes is an input of a graph of distributed tensors, and a result: nothing reads it."""

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn


@pytest.fixture
def mesh() -> Iterator[object]:
    """Two processes, of which the second does nothing: this one's sums are its own part."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield init_device_mesh("cpu", (2,))
    dist.destroy_process_group()


def test_tensor_parallel(compiler: Callable[..., Callable], mesh: object) -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    net = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))
    parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x = torch.randn(3, 4)

    def gradients(of: Callable) -> list[torch.Tensor]:
        net.zero_grad()
        of(x).square().sum().backward()
        return [parameter.grad.to_local().clone() for parameter in net.parameters()]

    torch.testing.assert_close(gradients(compiler(net)), gradients(net))
