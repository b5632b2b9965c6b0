"""For test_peak.py, in a process of its own: bytes that steps take, measured and predicted, as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import dlc
from benchmarks.heap import peak
from dlc.report import gather


class Block(nn.Module):
    """Of a GPT."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


def mlp() -> tuple[nn.Module, Tensor]:
    layers = [nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 64)]
    return nn.Sequential(*layers), torch.randn(1024, 64)


def convolutions() -> tuple[nn.Module, Tensor]:
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(32, 10)), torch.randn(4, 3, 64, 64)


def gpt() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(*(Block(64) for _ in range(4))), torch.randn(4, 128, 64)


def deep() -> tuple[nn.Module, Tensor]:
    """400 parameters, few bytes."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(200))), torch.randn(2, 4)


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "mlp": mlp,
    "convolutions": convolutions,
    "gpt": gpt,
}


def step(run: Callable[[Tensor], Tensor], x: Tensor, weights: list[nn.Parameter]) -> Any:
    return torch.autograd.grad(run(x), weights)


def explained(reports: list[dict[str, Any]], options: dict[str, Any]) -> Any:
    for report in reports:
        report["profile"] = report["callable"].profile()
    return gather.build(reports, gather.Seen(), options)


def options_of(name: str) -> dict[str, Any]:
    """The library's convolutions and attention take memory inside of their calls."""
    return {"tier": "tcc", "strict": True, "products": "auto" if name == "mlp" else "own"}


def train(name: str, limit: int | None = None) -> dict[str, Any]:
    model, x = MODELS[name]()
    weights = list(model.parameters())
    options = options_of(name) | ({"memory_limit": limit} if limit else {})
    torch._dynamo.reset()
    with gather.collect() as reports:
        run = torch.compile(lambda x: model(x).square().mean(), backend="dlc", options=options)
        for _ in range(2):
            step(run, x, weights)
        dlc.release()
        measured = peak(lambda: step(run, x, weights))
    return {"model": name, "measured": measured, "predicted": explained(reports, options).step_peak}


def evaluate(name: str) -> dict[str, Any]:
    model, x = deep() if name == "deep" else MODELS[name]()
    model.eval()
    options = options_of(name)
    torch._dynamo.reset()
    with gather.collect() as reports, torch.no_grad():
        run = torch.compile(model, backend="dlc", options=options)
        run(x)
        dlc.release()
        measured = peak(lambda: run(x))
    (graph,) = explained(reports, options).graphs
    return {"model": name, "measured": measured, "predicted": graph.taken["peak"]}


def library() -> dict[str, Any]:
    """A convolution of the library's, whose copies are measured; its image is too small to be kept."""
    model, x = nn.ConvTranspose2d(64, 256, 4, 2, 1), torch.randn(1, 64, 4, 4)
    weights = list(model.parameters())
    torch._dynamo.reset()
    with gather.collect(keep=True) as reports:
        run = torch.compile(lambda x: model(x).square().mean(), backend="dlc", options={"tier": "tcc"})
        step(run, x, weights)
        gather.measure(reports)
        dlc.release()
        measured = peak(lambda: step(run, x, weights))
    report = gather.build(reports, gather.Seen(), {"tier": "tcc"})
    inside = max(graph.taken["inside"] for graph in report.graphs)
    return {"measured": measured, "predicted": report.step_peak, "inside": inside}


if __name__ == "__main__":
    torch.set_num_threads(2)
    torch.manual_seed(0)
    for name in MODELS:
        row = {"train": train(name), "evaluate": evaluate(name)}
        if name == "gpt":
            row["limited"] = train(name, row["train"]["predicted"] * 6 // 10)
        print(json.dumps(row), flush=True)
    print(json.dumps({"deep": evaluate("deep")}), flush=True)
    print(json.dumps({"library": library()}), flush=True)
