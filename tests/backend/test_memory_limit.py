"""Option memory_limit: the gradients stay, one that is too small is an error, sizes that change count."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dlc
from dlc.memory import MemoryLimitError
from dlc.report import gather
from tests.backend.peaks import Block, explained, step


@pytest.fixture
def blocks() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(32) for _ in range(4)))


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean()


def compiled(model: nn.Module, limit: int | None, **how: Any) -> Any:
    torch._dynamo.reset()
    options = {"tier": "tcc", "strict": True, "memory_limit": limit}
    return torch.compile(lambda x: loss(model, x), backend="dlc", options=options, **how)


def trained(model: nn.Module, x: Tensor, limit: int | None) -> tuple[list[Tensor], int]:
    """Gradients, and the peak that was predicted."""
    with gather.collect() as reports:
        made = step(compiled(model, limit), x, list(model.parameters()))
        return made, explained(reports, {}).step_peak


def refused(call: Any) -> int:
    """The smallest limit, which the error names."""
    with pytest.raises(Exception, match="smallest limit") as caught:
        call()
    error = getattr(caught.value, "inner_exception", caught.value)
    assert isinstance(error, MemoryLimitError)
    found = re.search(r"these sizes is (\d+)", str(error))
    assert found
    return int(found[1])


def test_gradients_are_the_same_in_less_memory(blocks: nn.Module) -> None:
    x = torch.randn(4, 64, 32)
    free, most = trained(blocks, x, None)
    limited, taken = trained(blocks, x, most * 6 // 10)
    assert taken <= most * 6 // 10
    assert all(map(torch.equal, free, limited))


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norms[0](self.convs[0](x)).relu()
        return (x + self.norms[1](self.convs[1](inner))).relu()


def layers() -> tuple[nn.Module, Tensor]:
    steps = [step for _ in range(24) for step in (nn.Linear(64, 64), nn.GELU())]
    return nn.Sequential(*steps), torch.randn(4096, 64)


def convolutions() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(nn.Conv2d(3, 16, 1), *(Residual(16) for _ in range(10))), torch.randn(4, 3, 32, 32)


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("build", [layers, convolutions])
def test_segments_of_a_deep_model_take_six_tenths(build: Any) -> None:
    """What is alive between two blocks is kept, the rest of a block is computed again when it is its turn."""
    torch.manual_seed(0)
    model, x = build()
    free, most = trained(model, x, None)
    limited, taken = trained(model, x, most * 6 // 10)
    assert taken <= most * 6 // 10
    assert all(map(torch.equal, free, limited))


@pytest.mark.in_turn(3)
def test_an_error_names_the_smallest_limit(blocks: nn.Module) -> None:
    x = torch.randn(4, 64, 32)
    least = refused(lambda: trained(blocks, x, 1000))
    assert trained(blocks, x, least)[1] == least
    assert refused(lambda: trained(blocks, x, least - 1)) == least


@pytest.mark.in_turn(3)
def test_sizes_that_may_pass_the_limit_are_compiled_anew(blocks: nn.Module) -> None:
    weights = list(blocks.parameters())
    _, most = trained(blocks, torch.randn(16, 64, 32), None)
    run = compiled(blocks, most, dynamic=True)
    before = dlc.counters()["graphs"]
    counts = []
    for batch in (8, 6, 9, 24):
        x = torch.randn(batch, 64, 32)
        for have, want in zip(
            step(run, x, weights), step(lambda x: loss(blocks, x), x, weights), strict=True
        ):
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
        counts.append(dlc.counters()["graphs"] - before)
    assert counts[0] == counts[1] == counts[2] < counts[3]
    assert refused(lambda: step(run, torch.randn(800, 64, 32), weights)) > most


def test_a_graph_without_gradients_has_one_peak() -> None:
    x = torch.randn(256, 64)
    model = nn.Sequential(nn.Linear(64, 256), nn.Softmax(-1), nn.Linear(256, 64))
    with torch.no_grad():
        run = lambda limit: compiled(model, limit)(x)  # noqa: E731
        least = refused(lambda: run(1000))
        assert least > 4 * 256 * 256
        torch.testing.assert_close(run(least), loss(model, x))


def test_sizes_that_the_data_say() -> None:
    x = torch.tensor([1.0, 0.0, 2.0, 3.0])

    def fn(x: Tensor) -> Tensor:
        found = x.nonzero()[:, 0]
        return (found[1:] - found[:-1]).sum()

    run = torch.compile(fn, backend="dlc", options={"strict": True, "memory_limit": "1G"}, fullgraph=False)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert run(x) == fn(x)


def test_a_size_with_a_bound_does_not_bind_the_others() -> None:
    run = torch.compile(lambda x: x.softmax(1), backend="dlc", options={"memory_limit": "1G", "tier": "tcc"})
    graphs = []
    for batch in (8, 800):
        x = torch.randn(batch, 64)
        torch._dynamo.mark_dynamic(x, 0)
        torch._dynamo.mark_dynamic(x, 1, min=2, max=64)
        torch.testing.assert_close(run(x), x.softmax(1))
        graphs.append(dlc.counters()["graphs"])
    assert graphs[0] == graphs[1]


def test_a_repro_of_a_limited_graph(tmp_path: Path) -> None:
    path = dlc.save_repro(lambda x: x.exp() + 1, (torch.randn(8),), tmp_path / "r.dlc", memory_limit=1 << 20)
    assert Path(path).read_text().count("fn graph") == 1


@pytest.mark.parametrize("limit", ["12MB", -1, 1.5, True])
def test_a_limit_is_a_number_of_bytes(limit: Any) -> None:
    with pytest.raises(ValueError, match="number of bytes"):
        dlc.options.parse({"memory_limit": limit})


def test_a_limit_may_have_a_letter() -> None:
    assert dlc.options.parse({"memory_limit": "12M"}).memory_limit == 12 << 20
