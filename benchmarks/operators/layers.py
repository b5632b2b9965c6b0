"""Products, convolutions, pools, changes of size, attention, recurrences and a filter of frequencies."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.cases.case import Case, Inputs, case, normal

BF16 = torch.bfloat16


def square(n: int) -> int:
    """The side of square matrices, whose product is some hundred operations an element of n."""
    return max(16, min(768, int(n**0.5)))


def side(n: int, channels: int) -> int:
    return max(8, int((n // channels) ** 0.5))


def image(channels: int, *weight: int) -> Inputs:
    """An image of about n elements, and weights where they are given."""
    return normal(
        lambda n: ((1, channels, side(n, channels), side(n, channels)), *((weight,) if weight else ()))
    )


def signal(channels: int, *weight: int) -> Inputs:
    return normal(lambda n: ((1, channels, max(16, n // channels)), weight))


def volume(channels: int, *weight: int) -> Inputs:
    return normal(lambda n: ((1, channels, *(max(4, int((n // channels) ** (1 / 3))),) * 3), weight))


def layer(count: int) -> Inputs:
    """`count` rows, or as many as columns where it is 0; weights and a bias."""
    return normal(lambda n: ((count or square(n), square(n)), (square(n), square(n)), (square(n),)))


def whole_weights(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    """One row, weights of int8 and a scale of each."""
    s = square(n)
    weight = torch.randint(-128, 128, (s, s), generator=g, dtype=torch.int8)
    return torch.randn(1, s, generator=g), weight, torch.rand(s, generator=g)


def heads(query: int, of_query: int, of_keys: int) -> Inputs:
    """Heads of 64 numbers whose keys are n elements, at most 1,024 of them; queries, or as many as keys."""

    def shapes(n: int) -> tuple[tuple[int, ...], ...]:
        keys = max(4, min(1024, n // 64 // of_keys))
        return (1, of_query, query or min(keys, 512), 64), *((1, of_keys, keys, 64),) * 2

    return normal(shapes)


def sampled(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    s = side(n, 4)
    return torch.randn(1, 4, s, s, generator=g), torch.rand(1, s, s, 2, generator=g) * 2 - 1


def steps(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randn(min(256, max(2, n // 256)), 4, 64, generator=g),)


def filtered(n: int, g: torch.Generator) -> tuple[Tensor, ...]:
    return torch.randn(16, n // 16, generator=g), torch.rand(n // 32 + 1, generator=g)


class Sequence(nn.Module):
    """What a recurrent layer of 64 numbers returns for each step."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = kind(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


PRODUCTS: tuple[Case, ...] = (
    case(lambda a, b: a @ b, normal(lambda n: ((square(n), square(n)),) * 2), "matrix product"),
    case(lambda a, b: a @ b, normal(lambda n: ((8, square(n) // 4, square(n) // 4),) * 2), "batched product"),
    case(lambda a, b: a @ b, normal(lambda n: ((square(n), square(n)), (square(n),))), "matvec"),
    case(lambda a, b: a @ b, normal(lambda n: ((square(n),), (square(n), square(n)))), "vecmat"),
    case(lambda a, b: a @ b, normal(lambda n: ((n,), (n,))), "dot"),
    case(lambda a, b: torch.outer(a, b), normal(lambda n: ((int(n**0.5),),) * 2), "outer"),
    case(lambda x, w, b: F.linear(x, w, b), layer(0), "linear"),
    case(lambda x, w, b: F.linear(x, w, b), layer(1), "linear of one row"),
    case(lambda x, w, b: F.linear(x, w, b), layer(0), "linear").of(BF16),
    case(lambda x, w, b: F.linear(x, w, b), layer(1), "linear of one row").of(BF16),
    case(lambda x, w, b: F.gelu(F.linear(x, w, b)), layer(0), "linear and gelu"),
    case(lambda x, w, b: F.gelu(F.linear(x, w, b)), layer(0), "linear and gelu").of(BF16),
    case(lambda x, w, s: F.linear(x, w.to(x.dtype)) * s, whole_weights, "linear of one row, int8 weights"),
)

CONVOLUTIONS: tuple[Case, ...] = (
    case(lambda x, w: F.conv1d(x, w, padding=1), signal(16, 16, 16, 3), "conv1d"),
    case(lambda x, w: F.conv2d(x, w, padding=1), image(16, 16, 16, 3, 3), "conv2d"),
    case(lambda x, w: F.conv2d(x, w), image(32, 32, 32, 1, 1), "conv2d of 1 x 1"),
    case(lambda x, w: F.conv2d(x, w, padding=1), image(3, 16, 3, 3, 3), "conv2d, few channels"),
    case(lambda x, w: F.conv2d(x, w, padding=1), image(128, 128, 128, 3, 3), "conv2d, many channels"),
    case(lambda x, w: F.conv2d(x, w, padding=1, groups=32), image(32, 32, 1, 3, 3), "conv2d, depthwise"),
    case(lambda x, w: F.conv2d(x, w, stride=2, padding=1), image(16, 32, 16, 3, 3), "conv2d, stride 2"),
    case(lambda x, w: F.conv2d(x, w, dilation=2), image(16, 16, 16, 3, 3), "conv2d, dilated"),
    case(lambda x, w: F.relu(F.conv2d(x, w, padding=1)), image(16, 16, 16, 3, 3), "conv2d and relu"),
    case(lambda x, w: F.conv2d(x, w, padding=1), image(16, 16, 16, 3, 3), "conv2d gradient", train=True),
    case(lambda x, w: F.conv3d(x, w, padding=1), volume(8, 8, 8, 3, 3, 3), "conv3d"),
    case(lambda x, w: F.conv_transpose1d(x, w, stride=2), signal(16, 16, 16, 4), "conv_transpose1d"),
    case(lambda x, w: F.conv_transpose2d(x, w, stride=2), image(16, 16, 16, 4, 4), "conv_transpose2d"),
)

IMAGES: tuple[Case, ...] = (
    case(lambda x: F.max_pool2d(x, 2), image(16), "max_pool2d"),
    case(lambda x: F.avg_pool2d(x, 3, 1, 1), image(16), "avg_pool2d"),
    case(lambda x: F.adaptive_avg_pool2d(x, 1), image(16), "adaptive_avg_pool2d"),
    case(lambda x: F.interpolate(x, scale_factor=2.0), image(4), "nearest, up"),
    case(lambda x: F.interpolate(x, scale_factor=0.5), image(4), "nearest, down"),
    case(lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), image(4), "bilinear, up"),
    case(lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"), image(4), "bilinear, down"),
    case(lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"), image(4), "bicubic, up"),
    case(lambda x: F.interpolate(x, scale_factor=0.5, mode="bicubic"), image(4), "bicubic, down"),
    case(lambda x, at: F.grid_sample(x, at, align_corners=False), sampled, "grid_sample"),
)

SEQUENCES: tuple[Case, ...] = (
    case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), heads(0, 8, 8), "attention"),
    case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        heads(0, 8, 8),
        "attention, causal",
    ),
    case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), heads(1, 16, 16), "attention of one query"),
    case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        heads(1, 14, 2),
        "attention of one query, groups",
    ),
    case(Sequence(nn.GRU), steps, "GRU"),
    case(Sequence(nn.LSTM), steps, "LSTM"),
    case(
        lambda x, w: torch.fft.irfft(torch.fft.rfft(x) * w, n=x.shape[-1]), filtered, "filter of frequencies"
    ),
    case(lambda x, w: torch.fft.rfft(x), filtered, "rfft"),
)

CASES = (*PRODUCTS, *CONVOLUTIONS, *IMAGES, *SEQUENCES)
