"""Networks of other kinds than those of examples and of transformers, each with arguments of two sizes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Call = tuple[Tensor, ...]


class MobileNet(nn.Module):
    """Inverted residual blocks: M. Sandler et al., "MobileNetV2", CVPR 2018, https://arxiv.org/abs/1801.04381."""

    def __init__(self) -> None:
        super().__init__()

        def block(inner: int, outer: int, stride: int) -> nn.Sequential:
            depthwise = nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False)
            return nn.Sequential(
                nn.Conv2d(8, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
                depthwise, nn.BatchNorm2d(inner), nn.ReLU6(),
                nn.Conv2d(inner, outer, 1, bias=False), nn.BatchNorm2d(outer),
            )  # fmt: skip

        self.stem = nn.Conv2d(3, 8, 3, 2, 1)
        self.same, self.last, self.head = block(16, 8, 1), block(24, 12, 2), nn.Linear(12, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.stem(x))
        x = self.last(x + self.same(x))
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    """Down, up, and across: O. Ronneberger et al., "U-Net", MICCAI 2015, https://arxiv.org/abs/1505.04597."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.deep = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 12, 3, padding=1)
        self.up, self.join = nn.ConvTranspose2d(12, 6, 2, 2), nn.Conv2d(12, 6, 3, padding=1)
        self.last = nn.Conv2d(6, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        across = F.relu(self.first(x))
        deep = F.relu(self.deep(F.max_pool2d(across, 2)))
        return self.last(F.relu(self.join(torch.cat([across, self.up(deep)], 1))))


class WaveNet(nn.Module):
    """Dilated causal convolutions with gates: A. van den Oord et al., 2016, https://arxiv.org/abs/1609.03499."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 8, 1)
        self.gates = nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2**k) for k in range(4))
        self.mixes = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(4))
        self.last = nn.Conv1d(8, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        x, skips = self.first(x), []
        for k, (gate, mix) in enumerate(zip(self.gates, self.mixes, strict=True)):
            a, b = gate(F.pad(x, (2**k, 0))).chunk(2, 1)
            y = mix(torch.tanh(a) * torch.sigmoid(b))
            skips.append(y)
            x = x + y
        return self.last(F.relu(torch.stack(skips).sum(0)))


class Lstm(nn.Module):
    """Two layers in both directions, and what they end with."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y, (h, c) = self.rows(x)
        return self.head(y), h, c


class Dlrm(nn.Module):
    """Tables, a perceptron, and products of all pairs: M. Naumov et al., 2019, https://arxiv.org/abs/1906.00091."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(50, 8) for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8))
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: Tensor, places: Tensor) -> Tensor:
        """dense: [B, 5]; places: [B, 3, L] in the tables, of which L rows are added."""
        x = self.bottom(dense)
        rows = [table(places[:, k]).sum(1) for k, table in enumerate(self.tables)]
        all_rows = torch.stack([x, *rows], 1)
        pairs = all_rows @ all_rows.transpose(1, 2)
        i, j = torch.tril_indices(4, 4, -1)
        return torch.sigmoid(self.top(torch.cat([x, pairs[:, i, j]], 1)))


class Gcn(nn.Module):
    """Sums over the edges of a graph: T. Kipf, M. Welling, ICLR 2017, https://arxiv.org/abs/1609.02907."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(7, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """x: [N, 7]; edges: [2, E], from and to."""
        begin, end = edges[0], edges[1]
        ones = torch.ones_like(end, dtype=x.dtype)
        scale = torch.zeros_like(x[:, 0]).index_add(0, end, ones).add(1).rsqrt()
        weight = (scale[begin] * scale[end]).unsqueeze(1)
        for layer in (self.first, self.last):
            y = layer(x)
            x = F.relu(
                y * (scale * scale).unsqueeze(1) + torch.zeros_like(y).index_add(0, end, y[begin] * weight)
            )
        return x


def _image(channels: int, *sizes: int) -> Callable[[int], Call]:
    return lambda k: (torch.randn(2 + k, channels, sizes[k], sizes[k]),)


#: By name: the network, and its arguments by number of the call.
NETWORKS: dict[str, tuple[type[nn.Module], Callable[[int], Call]]] = {
    "mobilenet": (MobileNet, _image(3, 32, 48)),
    "unet": (UNet, _image(2, 16, 24)),
    "wavenet": (WaveNet, lambda k: (torch.randn(2 + k, 1, (40, 57)[k]),)),
    "lstm": (Lstm, lambda k: (torch.randn(2 + k, 9, 6),)),
    "dlrm": (Dlrm, lambda k: (torch.randn(4 + k, 5), torch.randint(50, (4 + k, 3, 6 + k)))),
    "gcn": (Gcn, lambda k: (torch.randn((12, 17)[k], 7), torch.randint((12, 17)[k], (2, (30, 41)[k])))),
}
