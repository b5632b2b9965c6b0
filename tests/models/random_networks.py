"""Random networks of convolutions: layers, sizes, layouts and options that nobody thought of together."""

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Layer = Callable[[Tensor], Tensor]

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
BATCH_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
INSTANCE_NORMS = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
MAX_POOLS = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
MEAN_POOLS = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}
ACTIVATIONS = (nn.ReLU, nn.SiLU, nn.GELU, nn.Hardswish, nn.ReLU6, nn.LeakyReLU, nn.Sigmoid, nn.Mish, nn.ELU)
KINDS = (
    *("convolution",) * 4,
    *("each_channel", "transposed", "batch_norm", "activation", "activation", "max_pool", "mean_pool", "cat"),
    *("residual", "upsampling", "excitation", "group_norm", "instance_norm", "pad", "shuffle", "layer_norm"),
    *("flip", "cut"),
)


class Around(nn.Module):
    """A module, and what a function makes of it and of an image (batch, channels, ..)."""

    def __init__(self, module: nn.Module, function: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.module, self.function = module, function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.module, x)


def excited(module: nn.Module, x: Tensor) -> Tensor:
    return x * torch.sigmoid(module(x.mean(tuple(range(2, x.dim())), keepdim=True)))


def shuffled(_: nn.Module, x: Tensor) -> Tensor:
    batch, channels = x.shape[:2]
    return x.reshape(batch, 2, channels // 2, *x.shape[2:]).transpose(1, 2).reshape(x.shape)


class Maker:
    """Makes layers of one number of axes; `channels` is what the next layer gets."""

    def __init__(self, choose: random.Random, axes: int) -> None:
        self.choose, self.axes = choose, axes
        self.channels = choose.choice((1, 3, 4, 8, 16))

    def often(self, part: float) -> bool:
        return self.choose.random() < part

    def convolution(self) -> nn.Module:
        pick = self.choose.choice
        groups = pick((1, 1, 1, 2)) if self.channels % 2 == 0 else 1
        made, kernel = groups * pick((1, 2, 3, 4, 8, 16)), pick((1, 1, 2, 3, 3, 5))
        padding = pick((0, kernel // 2, kernel // 2, "same"))
        step = 1 if padding == "same" else pick((1, 1, 1, 2))
        mode = "zeros" if padding == "same" else pick(("zeros",) * 3 + ("circular", "reflect", "replicate"))
        layer = CONVOLUTIONS[self.axes](
            self.channels, made, kernel, step, padding, pick((1, 1, 1, 2)), groups, self.often(0.6), mode
        )
        self.channels = made
        return layer

    def each_channel(self) -> nn.Module:
        times, kernel = self.choose.choice((1, 1, 2)), self.choose.choice((3, 3, 5, 7))
        before, self.channels = self.channels, self.channels * times
        step = self.choose.choice((1, 1, 2))
        return CONVOLUTIONS[self.axes](before, self.channels, kernel, step, kernel // 2, groups=before)

    def transposed(self) -> nn.Module:
        before, self.channels = self.channels, self.choose.choice((1, 4, 8, 16))
        kernel, step, padding = (self.choose.choice(c) for c in ((2, 3, 4), (1, 2, 2), (0, 1)))
        beyond = self.choose.choice((0, 0, step - 1))
        return TRANSPOSED[self.axes](before, self.channels, kernel, step, padding, beyond)

    def batch_norm(self) -> nn.Module:
        return BATCH_NORMS[self.axes](self.channels)

    def activation(self) -> nn.Module:
        return self.choose.choice(ACTIVATIONS)()

    def max_pool(self) -> nn.Module:
        size = self.choose.choice((2, 3))
        padding = self.choose.choice((0, size // 2))
        return MAX_POOLS[self.axes](size, self.choose.choice((1, 2)), padding, ceil_mode=self.often(0.3))

    def mean_pool(self) -> nn.Module:
        size = self.choose.choice((2, 3))
        step, padding = self.choose.choice((1, 2)), self.choose.choice((0, size // 2))
        return MEAN_POOLS[self.axes](size, step, padding, self.often(0.3), self.often(0.5))

    def cat(self) -> nn.Module:
        more = self.choose.choice((4, 8))
        layer = CONVOLUTIONS[self.axes](self.channels, more, 3, 1, 1)
        self.channels += more
        return Around(layer, lambda module, x: torch.cat([x, F.relu(module(x))], 1))

    def residual(self) -> nn.Module:
        layer = CONVOLUTIONS[self.axes](self.channels, self.channels, 3, 1, 1, bias=False)
        return Around(layer, lambda module, x: F.relu(x + module(x)))

    def upsampling(self) -> nn.Module:
        return nn.Upsample(scale_factor=2)

    def excitation(self) -> nn.Module:
        kind = CONVOLUTIONS[self.axes]
        return Around(nn.Sequential(kind(self.channels, 4, 1), nn.SiLU(), kind(4, self.channels, 1)), excited)

    def group_norm(self) -> nn.Module:
        return nn.GroupNorm(1 if self.channels % 2 else 2, self.channels)

    def instance_norm(self) -> nn.Module:
        return INSTANCE_NORMS[self.axes](self.channels, affine=self.often(0.5))

    def pad(self) -> nn.Module:
        ends = (self.choose.randint(0, 2), self.choose.randint(0, 2)) * self.axes
        return Around(nn.Identity(), lambda _, x: F.pad(x, ends))

    def shuffle(self) -> nn.Module:
        return nn.Identity() if self.channels % 2 else Around(nn.Identity(), shuffled)

    def layer_norm(self) -> nn.Module:
        norm = nn.LayerNorm(self.channels)
        return Around(norm, lambda module, x: module(x.movedim(1, -1)).movedim(-1, 1))

    def flip(self) -> nn.Module:
        return Around(nn.Identity(), lambda _, x: x.flip(-1))

    def cut(self) -> nn.Module:
        return Around(nn.Identity(), lambda _, x: x[..., 1:] if x.shape[-1] > 2 else x)


@dataclass
class Network:
    """A network, two images of different sizes for it, and how it is to be compiled and run."""

    model: nn.Module
    images: list[Tensor]
    training: bool
    dynamic: bool | None
    options: dict[str, Any]

    def runs(self) -> bool:
        """Whether eager can run it on all images, in float64 too, and what it makes is not empty.

        Its kernels of the two dtypes refuse different sizes: of a result without elements only one does.
        """
        double = copy.deepcopy(self.model).double()
        try:
            with torch.no_grad():
                return all(
                    self.model(image).numel() and double(image.double()).numel() for image in self.images
                )
        except RuntimeError:  # an image that is smaller than a kernel
            return False
        except ValueError:  # a norm in training over one element
            return False


def network(seed: int) -> Network:
    choose = random.Random(seed)
    torch.manual_seed(seed)
    axes = choose.choice((1, 2, 2, 2, 2, 3))
    maker = Maker(choose, axes)
    first = maker.channels
    layers = [getattr(maker, choose.choice(KINDS))() for _ in range(choose.randint(2, 6))]
    tail = choose.choice((None, lambda _, x: x.mean(tuple(range(2, x.dim()))), lambda _, x: x.mean(1)))
    model = nn.Sequential(*layers, *([Around(nn.Identity(), tail)] if tail else []))
    sides = choose.choices((5, 6, 7, 8, 9, 12) if axes == 3 else (7, 8, 9, 14, 16, 20), k=axes)
    batch = choose.choice((1, 1, 2, 3, 8))
    training, last = choose.random() < 0.4, choose.random() < 0.25 and axes > 1
    if training and any(isinstance(module, INSTANCE_NORMS[axes]) for module in model.modules()):
        batch = max(batch, 2)  # of a batch of one eager's gradient is wrong: docs/limits.md
    shapes = [(batch, first, *sides), (batch + (batch > 1), first, *(side + 2 for side in sides))]
    images = [torch.randn(shape) for shape in shapes]
    dynamic = choose.choice((None, None, False, True))
    options = {
        "products": choose.choice(("auto", "own", "own", "library")),
        "tier": choose.choice(("tcc", "tcc", "tcc", "gcc")),
        "freeze": not training and choose.random() < 0.4,
        "strict": True,
        "verify": True,
    }
    if last:
        model = model.to(memory_format=FORMATS[axes + 2])
        images = [image.to(memory_format=FORMATS[axes + 2]) for image in images]
    return Network(model.train(training), images[: 1 if dynamic is False else 2], training, dynamic, options)
