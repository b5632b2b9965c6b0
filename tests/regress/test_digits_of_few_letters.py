"""Products of rows as integers: results without letters, and codes that float32 rounds.

The letter of the groups was put before the first letter of a product of two vectors. Codes whose floats are
rounded on the way, beyond 2^24, were taken for exact bytes.
"""

from collections.abc import Callable

import pytest
import torch


def product(x: torch.Tensor, q: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return torch.dot(x, (q.float().reshape(4, 32) * s.reshape(4, 1)).reshape(128))


def rounded(x: torch.Tensor, q: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    codes = (q & 15).float() + 33554432.0 - 33554432.0
    return x @ (codes.reshape(8, 4, 32) * s.reshape(8, 4, 1)).reshape(8, 128).T


@pytest.mark.parametrize("activations", ["i8", "i16", "i32"])
@pytest.mark.parametrize("function", [product, rounded])
def test_is_near_eager(function: Callable[..., torch.Tensor], activations: str) -> None:
    torch.manual_seed(0)
    if function is product:
        given = torch.randn(128), torch.randint(-8, 8, (128,), dtype=torch.int8), torch.rand(4)
    else:
        given = torch.randn(3, 128), torch.randint(0, 255, (8, 128), dtype=torch.uint8), torch.rand(8, 4)
    want = function(*given)
    options = {"activations": activations, "tier": "tcc"}
    found = torch.compile(function, backend="dlc", options=options)(*given)
    assert (found - want).abs().max() <= 0.02 * want.abs().max()
