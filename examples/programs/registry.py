"""The models by name: how to build one, full size or small, and what to call it with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from examples.programs.gpt import GPT
from examples.programs.language import BERT, T5, Llama, Whisper
from examples.programs.mlp import MLP
from examples.programs.vision import ResNet, ViT

Inputs = Callable[[int, int, bool, torch.Generator], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Model:
    """A model and its sizes. `length`, of tokens, frames or images, changes from call to call."""

    name: str
    kind: Callable[..., nn.Module]
    small: dict[str, Any]  # arguments of `kind` for tests; without any it has its full size
    batch: int
    length: int
    inputs: Inputs  # of batch, length, small, generator
    varies: str = "length"

    def build(self, small: bool = False, seed: int = 0) -> nn.Module:
        """The model with weights from a seed, in evaluation mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.kind(**(self.small if small else {})).eval()

    def arguments(self, small: bool = False, length: int | None = None, seed: int = 0) -> tuple[Tensor, ...]:
        """Inputs for one call, for this length or batch or for the usual one."""
        usual = self.length if not small else 12 if self.varies == "length" else 3
        batch = 2 if small else self.batch
        return self.inputs(batch, length or usual, small, torch.Generator().manual_seed(seed))


def tokens(vocabulary: int) -> Inputs:
    return lambda b, n, small, g: (torch.randint(64 if small else vocabulary, (b, n), generator=g),)


def masked_tokens(b: int, n: int, small: bool, g: torch.Generator) -> tuple[Tensor, ...]:
    words = torch.randint(64 if small else 1000, (b, n), generator=g)
    padding = torch.arange(n)[None, :] < torch.randint(n // 2, n + 1, (b, 1), generator=g)
    return words, (torch.arange(n) >= n // 2).long().expand(b, n).contiguous(), padding.long()


def pairs_of_tokens(b: int, n: int, small: bool, g: torch.Generator) -> tuple[Tensor, ...]:
    top = 64 if small else 1000
    source = torch.randint(top, (b, n), generator=g)
    return source, torch.randint(top, (b, n // 2 + 3), generator=g)


def speech(b: int, n: int, small: bool, g: torch.Generator) -> tuple[Tensor, ...]:
    mels = 8 if small else 80
    return torch.randn(b, mels, 2 * n, generator=g), torch.randint(64, (b, n // 4 + 2), generator=g)


def images(b: int, n: int, small: bool, g: torch.Generator) -> tuple[Tensor, ...]:
    size = 64 if small else 224
    return (torch.rand(n, 3, size, size, generator=g),)


def vectors(b: int, n: int, small: bool, g: torch.Generator) -> tuple[Tensor, ...]:
    return (torch.randn(n, 16 if small else 256, generator=g),)


TEXT = {"vocabulary": 64, "layers": 2, "width": 32, "heads": 4}

MODELS = {
    m.name: m
    for m in (
        Model("mlp", MLP, {"width": 16, "hidden": 32}, 1, 64, vectors, varies="batch"),
        Model("gpt", GPT, TEXT | {"window": 64}, 2, 128, tokens(96)),
        Model("bert", BERT, TEXT | {"window": 64}, 2, 128, masked_tokens),
        Model("t5", T5, TEXT, 2, 128, pairs_of_tokens),
        Model("llama", Llama, TEXT | {"groups": 2, "hidden": 48}, 2, 128, tokens(1000)),
        Model("whisper", Whisper, TEXT | {"mels": 8, "frames": 64, "window": 32}, 1, 200, speech),
        Model("vit", ViT, {"size": 64, "patch": 16, "layers": 2, "width": 32, "heads": 4,
              "classes": 10}, 1, 1, images, varies="batch"),
        Model("resnet", ResNet, {"width": 16, "classes": 10}, 1, 1, images, varies="batch"),
    )
}  # fmt: skip
