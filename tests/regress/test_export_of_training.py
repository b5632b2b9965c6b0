"""A joint graph names values as PyTorch names its nodes (`_softmax`): its kernels were not imported."""

from pathlib import Path

import torch

import dlc


def test_names_that_begin_with_an_underscore(tmp_path: Path) -> None:
    x, w = torch.randn(8, 40, requires_grad=True), torch.randn(40, 3, requires_grad=True)
    options = {"tier": "gcc", "strict": True, "products": "library", "cache": str(tmp_path / "cache")}
    f = torch.compile(lambda x, w: torch.softmax(x * 2, -1) @ w, backend="dlc", options=options)
    f(x, w).sum().backward()
    assert dlc.cache.export(tmp_path / "file", folder=tmp_path / "cache") > 0
    found = dlc.cache.import_(tmp_path / "file", folder=tmp_path / "other")
    assert found["compiled"] > 0 and found["failed"] == 0
