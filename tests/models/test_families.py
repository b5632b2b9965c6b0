"""Decoders of the transformers library are taken directly: with masks, with caches, under vmap."""

import pytest
import torch
import transformers
from torch import Tensor
from transformers.masking_utils import create_causal_mask

from dlc.report import collect
from tests.models import families
from tests.models.family_list import FAMILIES

DIRECT = {"strict": True, "capture": "direct", "tier": "tcc"}


@pytest.mark.in_turn(8)
@pytest.mark.parametrize(
    ("name", "case"),
    [("llama", "masked"), ("llama", "dynamic cache"), ("llama", "static cache"), ("mistral", "static cache")],
)
def test_decoder(name: str, case: str) -> None:
    """capture="direct" raises where AOTAutograd would be asked."""
    torch._dynamo.reset()
    family = FAMILIES[name]
    model = families.build(family)
    with torch.no_grad():
        want = [families.run(family, m, case, None, m) for m in (model, families.exact(model))]
        compiled = torch.compile(model, backend="dlc", options=DIRECT)
        families.assert_program(families.run(family, model, case, None, compiled), *want)


def test_a_mask_under_vmap() -> None:
    """As models of several kinds of input make theirs."""
    config = transformers.LlamaConfig(**FAMILIES["llama"].arguments, attn_implementation="sdpa")

    def near(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query - key).abs() < 5

    def masked(x: Tensor, padding: Tensor) -> Tensor:
        mask = create_causal_mask(config, x, padding, None, and_mask_function=near)
        return torch.where(mask, x.sum(-1)[:, None, :, None], -torch.inf)

    with torch.no_grad(), collect() as reports:
        compiled = torch.compile(masked, backend="dlc", dynamic=True, options=DIRECT)
        for length in (12, 9, 17):
            x, padding = torch.randn(2, length, 32), families.padding(length)
            torch.testing.assert_close(compiled(x, padding), masked(x, padding))
    assert [r["kind"] for r in reports] == ["direct"]
