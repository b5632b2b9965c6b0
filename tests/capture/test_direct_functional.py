"""Functions of torch.nn.functional that torch decomposes for AOTAutograd, taken directly: the same bits."""

import pytest
import torch
import torch.nn.functional as F

from tests.capture.direct import check
from tests.capture.test_direct import case

torch.manual_seed(0)
X, Y, ROW = torch.randn(4, 6), torch.randn(4, 6), torch.randn(6)
IMAGE, HEADS = torch.randn(2, 3, 8, 8), torch.randn(2, 4, 10, 8)

FUNCTIONAL = {
    "rarer activations": case(
        lambda x: (F.softsign(x), F.selu(x), F.celu(x, 1.5), F.tanhshrink(x), F.threshold(x, 0.1, 3.0),
                   F.hardshrink(x), F.softshrink(x, 0.2), F.prelu(x, x[0, :1]), F.prelu(x, x[0]),
                       x.isfinite()),
        X,
    ),
    "of bfloat16": case(
        lambda x: (F.softsign(x), F.selu(x), F.celu(x, 1.5), F.tanhshrink(x), F.softshrink(x, 0.2),
                   F.prelu(x, x[0]), F.rms_norm(x, (6,), x[0]), F.group_norm(x, 3, x[0], x[1])),
        X.bfloat16(),
    ),
    "group_norm": case(
        lambda x, w: (F.group_norm(x, 2, w, w, 1e-3), F.group_norm(x[:, :, 0, 0], 2, w), F.group_norm(x, 4,
            w, w)),
        HEADS, ROW[:4],
    ),
    "rms_norm": case(lambda x, w: (F.rms_norm(x, (6,)), F.rms_norm(x, (6,), w, 1e-3), F.rms_norm(x,
        x.shape)), X, ROW),
    "normalize": case(lambda x: (F.normalize(x), F.normalize(x, dim=0), F.normalize(x, dim=(0, 1))), X),
    "upsampling": case(
        lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=(1, 4)),
                   F.interpolate(x, size=(x.shape[2] * 2, x.shape[3])),
                   F.interpolate(x[0], scale_factor=2.0, mode="nearest")),
        IMAGE,
    ),
    "shuffles": case(lambda x: F.pixel_shuffle(x, 2) + 1, HEADS),
    "pads": case(lambda x: (F.pad(x, (1, 2, 0, 1), mode="reflect"), F.pad(x, (1, 1, 2, 0),
        mode="replicate")), IMAGE),
    "products": case(lambda x, y: (torch.outer(x[0], y[1]), x.tile(2, 3), x.tile(2), torch.cumprod(x, 0)),
        X, Y),
    "grouped attention": case(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True, is_causal=True), HEADS,
            HEADS[:, :2]
    ),
}  # fmt: skip


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONAL)
def test_function(name: str, dynamic: bool) -> None:
    function, args = FUNCTIONAL[name]
    check(function, *args, dynamic=dynamic)


def test_known_sizes() -> None:
    check(lambda x: (F.pixel_unshuffle(x, 2), F.interpolate(x, size=(16, 8))), IMAGE, dynamic=False)
