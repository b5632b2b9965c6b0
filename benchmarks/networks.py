"""Networks of convolutions at the widths and sizes that people run: `python -m benchmarks convolutions`."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from examples.programs.vision import ResNet


def normed(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = None
) -> nn.Sequential:
    """A convolution that keeps an image's size but for the stride, its norm, and an activation."""
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([act()] if act else []))


class Classifier(nn.Module):
    """Features, their mean over the image, and a linear layer."""

    def __init__(self, features: list[nn.Module], width: int, classes: int = 1000) -> None:
        super().__init__()
        self.features, self.head = nn.Sequential(*features), nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.features(image)
        return self.head(x.mean(tuple(range(2, x.dim()))))


# ---- ResNet-50 ----


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            normed(inputs, width, 1, act=nn.ReLU),
            normed(width, width, 3, stride, act=nn.ReLU),
            normed(width, 4 * width, 1),
        )
        same = inputs == 4 * width and stride == 1
        self.shortcut = nn.Identity() if same else normed(inputs, 4 * width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def resnet50(depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64) -> nn.Module:
    blocks: list[nn.Module] = [normed(3, width, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, depth in enumerate(depths):
        each = width << stage
        for k in range(depth):
            blocks.append(Bottleneck(inputs, each, 2 if k == 0 and stage else 1))
            inputs = 4 * each
    return Classifier(blocks, inputs)


# ---- MobileNet-v2, EfficientNet-B0 ----


class Squeeze(nn.Module):
    """Scales each channel by a gate, which two layers make of all channels' means."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, inner, 1), nn.Conv2d(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.up(F.silu(self.down(x.mean((2, 3), keepdim=True)))))


class Inverted(nn.Module):
    """1 x 1 to more channels, each of them by itself, 1 x 1 back, and the shortcut around them."""

    def __init__(
        self, inputs: int, outputs: int, size: int, stride: int, expand: int, act: type[nn.Module], gate: bool
    ) -> None:
        super().__init__()
        width = inputs * expand
        self.same = inputs == outputs and stride == 1
        self.body = nn.Sequential(
            *([normed(inputs, width, 1, act=act)] if expand > 1 else []),
            normed(width, width, size, stride, groups=width, act=act),
            *([Squeeze(width, inputs // 4)] if gate else []),
            normed(width, outputs, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.same else self.body(x)


Stage = tuple[int, int, int, int, int]  # expansion, channels, blocks, stride, size of the kernel
MOBILE: list[Stage] = [
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3), (6, 320, 1, 1, 3),
]  # fmt: skip
EFFICIENT: list[Stage] = [
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
]  # fmt: skip


def inverted(stages: list[Stage], act: type[nn.Module], gate: bool) -> nn.Module:
    blocks: list[nn.Module] = [normed(3, 32, 3, 2, act=act)]
    inputs = 32
    for expand, outputs, count, stride, size in stages:
        for k in range(count):
            blocks.append(Inverted(inputs, outputs, size, 1 if k else stride, expand, act, gate))
            inputs = outputs
    return Classifier([*blocks, normed(inputs, 4 * inputs, 1, act=act)], 4 * inputs)


# ---- ConvNeXt ----


class Norm(nn.LayerNorm):
    """Of the channels of an image."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Next(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.mix = nn.Sequential(
            nn.LayerNorm(width, 1e-6), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scale = nn.Parameter(torch.full((width, 1, 1), 1e-2))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * self.mix(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext(
    depths: tuple[int, ...] = (3, 3, 9, 3), widths: tuple[int, ...] = (96, 192, 384, 768)
) -> nn.Module:
    blocks: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), Norm(widths[0])]
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            blocks += [Norm(widths[stage - 1]), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        blocks += [Next(width) for _ in range(depth)]
    return Classifier(blocks, widths[-1])


# ---- U-Net ----


def twice(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(normed(inputs, outputs, 3, act=nn.ReLU), normed(outputs, outputs, 3, act=nn.ReLU))


class UNet(nn.Module):
    """Down by pools, up by transposed convolutions, and on the way up what was there on the way down."""

    def __init__(self, width: int = 32, depth: int = 4) -> None:
        super().__init__()
        widths = [width << k for k in range(depth + 1)]
        self.first = twice(3, width)
        self.down = nn.ModuleList(twice(i, o) for i, o in pairwise(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(o, i, 2, 2) for i, o in pairwise(widths))
        self.join = nn.ModuleList(twice(2 * i, i) for i in widths[:-1])
        self.last = nn.Conv2d(width, 2, 1)

    def forward(self, image: Tensor) -> Tensor:
        kept = [self.first(image)]
        for down in self.down:
            kept.append(down(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.last(x)


# ---- sound, generated images, videos ----


class WaveNet(nn.Module):
    """Gated, dilated convolutions of the past, each with a residual and a part of the result."""

    def __init__(self, width: int = 64, layers: int = 10, stacks: int = 2, classes: int = 256) -> None:
        super().__init__()
        self.gaps = [1 << k for k in range(layers)] * stacks
        self.first = nn.Conv1d(classes, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=gap) for gap in self.gaps)
        self.outs = nn.ModuleList(nn.Conv1d(width, 2 * width, 1) for _ in self.gaps)
        self.last = nn.Sequential(
            nn.ReLU(), nn.Conv1d(width, classes, 1), nn.ReLU(), nn.Conv1d(classes, classes, 1)
        )

    def forward(self, sound: Tensor) -> Tensor:
        x, total = self.first(sound), torch.zeros(())
        for gap, gate, out in zip(self.gaps, self.gates, self.outs, strict=True):
            a, b = gate(F.pad(x, (gap, 0))).chunk(2, 1)
            more, part = out(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, total = x + more, total + part
        return self.last(total)


def generator(noise: int = 100, width: int = 64) -> nn.Module:
    """DCGAN's, for images of 64 x 64."""
    widths = [noise, 8 * width, 4 * width, 2 * width, width]
    layers: list[nn.Module] = []
    for k, (i, o) in enumerate(pairwise(widths)):
        conv = nn.ConvTranspose2d(i, o, 4, 2 if k else 1, 1 if k else 0, bias=False)
        layers += [conv, nn.BatchNorm2d(o), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh())


class Volume(nn.Module):
    """Two convolutions of videos and the shortcut around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm3d(outputs), nn.ReLU(),
            nn.Conv3d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm3d(outputs),
        )  # fmt: skip
        self.shortcut: nn.Module = nn.Identity()
        if inputs != outputs or stride > 1:
            conv = nn.Conv3d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm3d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def video(width: int = 32, classes: int = 400) -> nn.Module:
    """R3D-18 of half the width."""
    stem = nn.Conv3d(3, width, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
    blocks: list[nn.Module] = [stem, nn.BatchNorm3d(width), nn.ReLU()]
    widths = [width << k for k in range(4)]
    for i, o in pairwise([width, *widths]):
        blocks += [Volume(i, o, 1 if i == o else 2), Volume(o, o, 1)]
    return Classifier(blocks, widths[-1], classes)


# ---- all of them ----


@dataclass(frozen=True)
class Network:
    """make, small: the network, and a smaller one of the same layers; shape, tiny: of their inputs, without
    the batch; trained: is a step of its training measured?
    """

    name: str
    make: Callable[[], nn.Module]
    small: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tiny: tuple[int, ...]
    trained: bool = False

    def build(self, small: bool = False) -> nn.Module:
        """The network with statistics of its norms that keep values near one."""
        torch.manual_seed(0)
        network = (self.small if small else self.make)()
        norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d | nn.BatchNorm3d)]
        for norm in norms:
            norm.momentum = 1.0
        with torch.no_grad():
            network.train()(*self.arguments(2, small))
        for norm in norms:
            norm.momentum = 0.1
        return network.eval()

    def arguments(self, batch: int, small: bool = False) -> tuple[Tensor, ...]:
        return (torch.randn(batch, *(self.tiny if small else self.shape)),)


def few(stages: list[Stage]) -> list[Stage]:
    return [(expand, outputs, 1, stride, size) for expand, outputs, _, stride, size in stages[:3]]


IMAGE, TINY = (3, 224, 224), (3, 32, 32)
ALL = [
    Network("ResNet-18", ResNet, lambda: ResNet(16, 10), IMAGE, TINY, trained=True),
    Network("ResNet-50", resnet50, lambda: resnet50((1, 1), 16), IMAGE, TINY),
    Network(
        "MobileNet-v2",
        lambda: inverted(MOBILE, nn.ReLU6, gate=False),
        lambda: inverted(few(MOBILE), nn.ReLU6, gate=False),
        IMAGE,
        TINY,
        trained=True,
    ),
    Network(
        "EfficientNet-B0",
        lambda: inverted(EFFICIENT, nn.SiLU, gate=True),
        lambda: inverted(few(EFFICIENT), nn.SiLU, gate=True),
        IMAGE,
        TINY,
    ),
    Network("ConvNeXt-T", convnext, lambda: convnext((1, 1), (16, 32)), IMAGE, TINY),
    Network("U-Net", UNet, lambda: UNet(8, 2), (3, 128, 128), TINY, trained=True),
    Network("WaveNet", WaveNet, lambda: WaveNet(16, 3, 1, 32), (256, 4096), (32, 64)),
    Network("DCGAN", generator, lambda: generator(16, 8), (100, 1, 1), (16, 1, 1)),
    Network("R3D-18, half", video, lambda: video(8, 10), (3, 8, 112, 112), (3, 4, 16, 16)),
]
BY_NAME = {network.name: network for network in ALL}
