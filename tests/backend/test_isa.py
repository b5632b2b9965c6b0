"""DLC_ISA: both tiers have the same bits with each instruction set; so have all that fuse multiply-adds."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import dlc
from tests.fresh import run

SETS = ["sse2", "avx2", "avx512"]
pytestmark = pytest.mark.skipif(dlc._C.isa() not in SETS[1:], reason="needs AVX2, to leave it out")


class Block(nn.Module):
    """A convolution, products of many rows and of one, attention, norms and what is pointwise around them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 32, 3, 2, 1), nn.Conv2d(32, 20, 1)
        self.norm, self.q, self.k = nn.LayerNorm(20), nn.Linear(20, 48), nn.Linear(20, 48)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.last(torch.relu(self.conv(x))).flatten(2).mT
        y = self.norm(y)
        q, k = (f(y).unflatten(-1, (3, 16)).transpose(1, 2) for f in (self.q, self.k))
        z = nn.functional.scaled_dot_product_attention(q, k, torch.sin(k), is_causal=True)
        return z, self.k(y[:, -1]), torch.softmax(y, 1), y.cumsum(1), y.var(-1), torch.erf(y).sum(0)


def child(to: str) -> None:
    """Writes the results of both tiers, and which set made them."""
    torch.manual_seed(0)
    block, x = Block().eval(), torch.randn(2, 3, 33, 31)
    found = {}
    with torch.no_grad():
        for tier in ("tcc", "gcc"):
            torch._dynamo.reset()
            options = {"tier": tier, "products": "own", "strict": True, "cache": False}
            found[tier] = torch.compile(block, backend="dlc", options=options)(x)
    torch.save({"isa": dlc._C.isa(), "found": found, "eager": block(x)}, to)


@pytest.mark.in_turn(3)
def test_bits(tmp_path: Path) -> None:
    sets = SETS[: SETS.index(dlc._C.isa()) + 1]
    made = []
    for isa in sets:
        to = tmp_path / isa
        done = run(f"from tests.backend.test_isa import child; child({str(to)!r})", DLC_ISA=isa)
        assert done.returncode == 0, done.stderr
        made.append(torch.load(to))
    assert [m["isa"] for m in made] == sets
    for m in made:
        assert all(map(torch.equal, m["found"]["tcc"], m["found"]["gcc"]))
        assert all(map(torch.equal, m["found"]["gcc"], made[m["isa"] != "sse2"]["found"]["gcc"]))
        for result, eager in zip(m["found"]["gcc"], m["eager"], strict=True):
            torch.testing.assert_close(result, eager, rtol=1e-4, atol=1e-5)
