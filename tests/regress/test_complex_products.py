"""gcc made fused operations of a complex product's two parts where they were stored side by side."""

import pytest
import torch


@pytest.mark.parametrize("tier", ["tcc", "gcc"])
def test_exact_cancellation(tier: str) -> None:
    torch._dynamo.reset()
    part = torch.full((64,), 1 + 2**-30, dtype=torch.float64)
    z = torch.complex(part, part)
    run = torch.compile(lambda z, w: z * w, backend="dlc", options={"tier": tier, "strict": True})
    assert torch.equal(run(z, z.clone()).real, torch.zeros(64, dtype=torch.float64))
