"""Twelve small models of torch that go to ONNX and come back: test_onnx_models.py."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tests.models.test_transformers import build, inputs


@dataclass(frozen=True)
class Case:
    """A model, and its arguments for a size that changes; `axes`: of each argument, those of that size."""

    build: Callable[[], nn.Module]
    arguments: Callable[[nn.Module, int, int], tuple[Tensor, ...]]  # of the model, the size and a seed
    axes: tuple[tuple[int, ...], ...] = ((0,),)

    def dynamic(self) -> Any:
        """As torch.export takes it."""
        size = torch.export.Dim("size", min=2, max=64)
        return tuple(dict.fromkeys(axes, size) for axes in self.axes)


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def images(*shape: int) -> Callable[[nn.Module, int, int], tuple[Tensor, ...]]:
    return lambda model, size, seed: (normal(seed, size, *shape),)


class Only(nn.Module):
    """A model of the transformers library as a function from a tensor to a tensor."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.inner = build(name)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[0]


def text(name: str) -> Case:
    """A model of token numbers; the length changes."""

    def arguments(model: nn.Module, size: int, seed: int) -> tuple[Tensor, ...]:
        return (inputs(model.inner, size, seed),)

    return Case(lambda: Only(name), arguments, ((1,),))


class Residual(nn.Module):
    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        wide = channels * stride
        self.inner = nn.Sequential(
            nn.Conv2d(channels, wide, 3, stride, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU(),
            nn.Conv2d(wide, wide, 3, 1, 1, bias=False), nn.BatchNorm2d(wide),
        )  # fmt: skip
        self.short = nn.Conv2d(channels, wide, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.inner(x) + self.short(x))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Residual(8, 1), Residual(8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


def mobile() -> nn.Module:
    """Depthwise convolutions, activations of MobileNet."""
    layers: list[nn.Module] = [nn.Conv2d(3, 8, 3, 2, 1), nn.Hardswish()]
    for stride in (1, 2):
        layers += [nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), nn.ReLU6(),
                   nn.Conv2d(16, 16, 5, stride, 2, groups=16), nn.BatchNorm2d(16), nn.ReLU6(),
                   nn.Conv2d(16, 8, 1)]  # fmt: skip
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(2, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
        self.below = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.InstanceNorm2d(16), nn.LeakyReLU(0.1))
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.down(x)
        z = nn.functional.interpolate(self.up(self.below(y)), scale_factor=2.0)[:, :, ::2, ::2]
        return self.out(torch.cat([y, z], 1))


class Wave(nn.Module):
    """Dilated convolutions of a signal, gated."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 8, 1)
        self.layers = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2**k) for k in range(4))
        self.outs = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(4))
        self.last = nn.Conv1d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        total = torch.zeros_like(x)
        for k, (layer, out) in enumerate(zip(self.layers, self.outs, strict=True)):
            a, b = layer(nn.functional.pad(x, (2**k, 0))).chunk(2, 1)
            y = out(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + y, total + y
        return torch.log_softmax(self.last(torch.relu(total)), 1)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.inner = kind(6, 8, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.inner(x)[0])


class Mixer(nn.Module):
    """Products over positions and over channels in turns."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 16, 4, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.places = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))
        self.channels = nn.Sequential(nn.Linear(16, 24), nn.GELU("tanh"), nn.Linear(24, 16))

    def forward(self, x: Tensor) -> Tensor:
        y = self.embed(x).flatten(2).transpose(1, 2)
        y = y + self.places(self.norms[0](y).transpose(1, 2)).transpose(1, 2)
        return (y + self.channels(self.norms[1](y))).mean(1)


MODELS = {
    "gpt": text("gpt2"),
    "bert": text("bert"),
    "t5": text("t5"),
    "llama": text("llama"),
    "vit": Case(lambda: Only("vit"), images(3, 16, 16)),
    "resnet": Case(resnet, images(3, 32, 32)),
    "mobilenet": Case(mobile, images(3, 16, 16)),
    "unet": Case(Unet, images(2, 12, 8)),
    "wavenet": Case(Wave, lambda model, size, seed: (normal(seed, 2, 1, size + 20),), ((2,),)),
    "lstm": Case(lambda: Recurrent(nn.LSTM), lambda model, size, seed: (normal(seed, size, 5, 6),)),
    "gru": Case(lambda: Recurrent(nn.GRU), lambda model, size, seed: (normal(seed, size, 5, 6),)),
    "mixer": Case(Mixer, images(3, 16, 16)),
}


def made(name: str) -> nn.Module:
    """The model, with weights that are the same in each process."""
    torch.manual_seed(0)
    model = MODELS[name].build().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return model


def export(name: str, model: nn.Module, path: Path, dynamic: bool, **more: Any) -> None:
    """By torch's own exporter."""
    case = MODELS[name]
    shapes = case.dynamic() if dynamic else None
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model,
            case.arguments(model, 5, 0),
            path,
            dynamo=True,
            verbose=False,
            dynamic_shapes=shapes,
            **more,
        )
