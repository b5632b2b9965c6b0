"""Scales of groups that are the bits of integers: with rows as integers, such a product failed to compile."""

import torch


def product(x: torch.Tensor, q: torch.Tensor, bits: torch.Tensor) -> torch.Tensor:
    scale = bits.view(torch.float32)
    return x @ (q.float().reshape(48, 2, 32) * scale.reshape(48, 2, 1)).reshape(48, 64).T


def test_is_near_eager() -> None:
    torch.manual_seed(0)
    bits = torch.rand(48, 2).view(torch.int32)
    given = torch.randn(3, 64), torch.randint(-128, 127, (48, 64), dtype=torch.int8), bits
    want = product(*given)
    options = {"activations": "i32", "tier": "tcc", "strict": True}
    found = torch.compile(product, backend="dlc", options=options)(*given)
    assert (found - want).abs().max() <= 1e-5 * want.abs().max()
