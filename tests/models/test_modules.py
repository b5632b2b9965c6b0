"""Modules of torch.nn, one by one: outputs, gradients of weights and of the input, two sizes of batch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.models.runs import assert_steps, exact_model, train
from tests.tolerance import double

MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(8, 5), (8,)),
    "bilinear": (lambda: Twice(nn.Bilinear(8, 8, 5)), (8,)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), (4, 10)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, stride=2, groups=2), (4, 9, 9)),
    "conv_transpose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), (4, 5, 5)),
    "batch_norm": (lambda: nn.BatchNorm2d(4), (4, 5, 5)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (4, 5, 5)),
    "instance_norm": (lambda: nn.InstanceNorm2d(4, affine=True), (4, 5, 5)),
    "layer_norm": (lambda: nn.LayerNorm((5, 6)), (4, 5, 6)),
    "rms_norm": (lambda: nn.RMSNorm(6), (4, 6)),
    "max_pool": (lambda: nn.MaxPool2d(2), (4, 6, 6)),
    "average_pool": (lambda: nn.AvgPool2d(3, stride=2, padding=1), (4, 7, 7)),
    "adaptive_pool": (lambda: nn.AdaptiveAvgPool2d((2, 3)), (4, 7, 7)),
    "upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (4, 5, 5)),
    "pixel_shuffle": (lambda: nn.PixelShuffle(2), (8, 3, 3)),
    "pad": (lambda: nn.ReflectionPad2d(2), (4, 5, 5)),
    "lstm": (lambda: First(nn.LSTM(6, 5, batch_first=True)), (7, 6)),
    "gru": (lambda: First(nn.GRU(6, 5, batch_first=True, bidirectional=True)), (7, 6)),
    "attention": (lambda: First(Thrice(nn.MultiheadAttention(8, 2, batch_first=True))), (5, 8)),
    "encoder_layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), (5, 8)),
    "gelu_tanh": (lambda: nn.GELU("tanh"), (9,)),
    "activations": (lambda: nn.Sequential(*(kind() for kind in ACTIVATIONS)), (9,)),
    "softmax": (lambda: nn.Sequential(nn.Softmax(1), nn.LogSoftmax(-1)), (4, 6)),
    "losses": (lambda: Losses(), (6,)),
}
ACTIVATIONS = (nn.ELU, nn.Softplus, nn.Mish, nn.SiLU, nn.Tanh, nn.Softsign, nn.LogSigmoid, nn.PReLU,
               nn.Hardswish, nn.SELU, nn.CELU, nn.Tanhshrink)  # fmt: skip


class Of(nn.Module):
    """A module around another."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner


class First(Of):
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)[0]


class Twice(Of):
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x.flip(0))


class Thrice(Of):
    def forward(self, x: Tensor) -> Any:
        return self.inner(x, x, x)


class Losses(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        target = x.detach().sigmoid().flip(0)
        kinds = (nn.MSELoss(), nn.SmoothL1Loss(), nn.HuberLoss(), nn.BCEWithLogitsLoss())
        return torch.stack([kind(x, target) for kind in kinds])


class WithInput(nn.Module):
    """A module whose input is a weight, so that its gradient is compared as well."""

    def __init__(self, inner: nn.Module, x: Tensor) -> None:
        super().__init__()
        self.inner, self.x = inner, nn.Parameter(x)

    def forward(self, zero: Tensor) -> Tensor:
        return self.inner(self.x + zero)


@pytest.mark.in_turn(8)
@pytest.mark.parametrize("name", MODULES)
def test_module(name: str, compiler: Callable[..., Any]) -> None:
    build, shape = MODULES[name]
    torch.manual_seed(0)
    inner = build()
    runs = []
    for batch in (3, 5, 4):
        inputs = (torch.zeros(()),)
        model = WithInput(inner, torch.randn(batch, *shape))
        exact = train(exact_model(model), double(inputs))
        runs.append((train(model, inputs, compiler), train(model, inputs), exact))
    assert_steps(runs)
