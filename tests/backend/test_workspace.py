"""The workspace: results that come late lend it their memory, scratch has the place of dead values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dlc.memory import step_peak
from dlc.report import gather
from tests.backend.peaks import explained, step


def trained(model: nn.Module, x: Tensor, limit: int | None = None) -> tuple[list[Tensor], list[Any]]:
    """Gradients, and what the two graphs take."""
    torch._dynamo.reset()
    options = {"tier": "tcc", "strict": True, "products": "own", "memory_limit": limit}
    with gather.collect() as reports:
        run = torch.compile(lambda x: model(x).square().mean(), backend="dlc", options=options)
        made = step(run, x, list(model.parameters()))
        return made, [graph.taken for graph in explained(reports, options).graphs]


@pytest.fixture
def mlp() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(256, 1024), nn.SiLU(), nn.Linear(1024, 1024), nn.SiLU(), nn.Linear(1024, 10)]
    return nn.Sequential(*layers)


def test_gradients_that_come_late_hold_what_is_dead_by_then(mlp: nn.Module) -> None:
    """Five tensors of the hidden size were in the workspace of the backward, with scratch."""
    x = torch.randn(64, 256)
    made, (_, backward) = trained(mlp, x)
    hidden = 64 * 1024 * 4
    assert backward["workspace"] < 3 * hidden
    assert backward["peak"] < backward["left"] + 4 * hidden
    expected = step(lambda x: mlp(x).square().mean(), x, list(mlp.parameters()))
    for a, b in zip(made, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_the_number_of_threads_may_change_between_calls(mlp: nn.Module) -> None:
    x = torch.randn(64, 256)
    torch._dynamo.reset()
    run = torch.compile(mlp, backend="dlc", options={"tier": "tcc", "products": "own"})
    threads = torch.get_num_threads()
    made = []
    try:
        for count in (1, 2, 3, 1):
            torch.set_num_threads(count)
            with torch.no_grad():
                made.append(run(x))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(made[0], other) for other in made)


def test_with_a_limit_a_step_takes_no_more_than_is_alive() -> None:
    """In one block of the workspace the least was 0.82 of the peak."""
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())]
    model, x = nn.Sequential(*layers), torch.randn(2048, 64)
    free, taken = trained(model, x)
    most = step_peak(*taken, taken[1]["tangents"])
    limited, less = trained(model, x, most * 3 // 4)
    assert step_peak(*less, less[1]["tangents"]) <= most * 3 // 4
    assert all(map(torch.equal, free, limited))


def test_the_workspace_is_taken_by_the_first_step_that_needs_it() -> None:
    """What is between two calls of the library is a tensor of its own: no workspace is beside it yet."""
    torch._dynamo.reset()
    large, small = (1024, 256), (256, 64)

    def fn(x: Tensor, y: Tensor) -> Tensor:
        picked = torch.linalg.qr(x.exp()).R[:64, :64]
        hidden = (picked @ y).relu()
        return (hidden.softmax(-1) @ hidden.softmax(0).mT).sum()

    options = {"tier": "tcc", "strict": True, "products": "own"}
    with gather.collect() as reports, torch.no_grad():
        run = torch.compile(fn, backend="dlc", options=options)
        x, y = torch.rand(large), torch.rand(64, small[0])
        torch.testing.assert_close(run(x, y), fn(x, y))
        (graph,) = explained(reports, options).graphs
    early = 4 * 1024 * 256 * 2 + 4 * 256 * 256  # the exponentials and what the call makes of them
    assert graph.taken["workspace"] > 1 << 16
    assert graph.taken["peak"] == early


def test_large_gradients_that_nobody_reads_are_made_last() -> None:
    """The last layers have most parameters, and came first, when all that the first ones saved was there."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(64, 64), nn.SiLU()]
    layers += [nn.AdaptiveAvgPool2d((8, 64)), nn.Linear(64, 2048), nn.SiLU(), nn.Linear(2048, 512)]
    model = nn.Sequential(*layers)
    x = torch.randn(1, 1, 2048, 64)
    made, (forward, backward) = trained(model, x)
    saved, gradients = sum(backward["given"].values()), sum(g.nbytes for g in made)
    assert saved > 1 << 21
    assert step_peak(forward, backward, []) < gradients + saved
    expected = step(lambda x: model(x).square().mean(), x, list(model.parameters()))
    for a, b in zip(made, expected, strict=True):
        torch.testing.assert_close(a, b)
