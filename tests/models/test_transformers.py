"""Architectures of the transformers library, small: forward and backward, two precisions, changing lengths.

How many kernels and calls a forward and a backward have is bounded: fewer is better, more needs a reason.
"""

import copy
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dlc.report import collect
from tests.models.runs import assert_steps, exact_model, graphs_compiled, step
from tests.tolerance import assert_program, named

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers")

TOKENS = 64
BASE = {
    "vocab_size": TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
TEXT = BASE | {"max_position_embeddings": 64}
DECODER = TEXT | {"num_key_value_heads": 2, "use_cache": False}
VISION = {k: v for k, v in BASE.items() if k != "vocab_size"} | {"image_size": 16, "patch_size": 4}

#: Model, configuration, its arguments.
ARCHITECTURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertModel", "BertConfig", TEXT),
    "distilbert": (
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": TOKENS, "dim": 32, "hidden_dim": 48, "n_layers": 2, "n_heads": 4},
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {
            "vocab_size": TOKENS,
            "n_embd": 32,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 64,
            "use_cache": False,
        },
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", DECODER),
    "mistral": ("MistralForCausalLM", "MistralConfig", DECODER | {"sliding_window": 8}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", DECODER),
    "gemma": ("GemmaForCausalLM", "GemmaConfig", DECODER | {"head_dim": 8}),
    "phi": ("PhiForCausalLM", "PhiConfig", TEXT | {"use_cache": False}),
    "mamba": (
        "MambaForCausalLM",
        "MambaConfig",
        {
            "vocab_size": TOKENS,
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "state_size": 4,
            "use_cache": False,
        },
    ),
    "t5": (
        "T5EncoderModel",
        "T5Config",
        {"vocab_size": TOKENS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
    ),
    "vit": ("ViTModel", "ViTConfig", VISION),
    "clip": ("CLIPVisionModel", "CLIPVisionConfig", VISION),
}

#: At most: kernels and calls together, and calls; of the forward, then of the backward.
AT_MOST = {
    "bert": (23, 15, 52, 28),
    "distilbert": (21, 14, 47, 26),
    "gpt2": (23, 12, 44, 20),
    "llama": (38, 18, 66, 32),
    "mistral": (38, 18, 66, 32),
    "qwen2": (38, 18, 66, 32),
    "gemma": (38, 18, 67, 32),
    "phi": (36, 16, 67, 30),
    "mamba": (27, 7, 81, 33),
    "t5": (34, 16, 66, 32),
    "vit": (25, 16, 51, 29),
    "clip": (25, 15, 51, 27),
}


class Plain(nn.Module):
    """The model as a function of one tensor to a tuple of tensors."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        result = self.model(**{self.name: x})
        return tuple(value for value in result.values() if isinstance(value, Tensor))


def build(name: str) -> Plain:
    """Without dropout, so that every run is of one function."""
    model, config, arguments = ARCHITECTURES[name]
    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**arguments))
    return Plain(made, made.main_input_name).eval()


def inputs(model: Plain, length: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if model.name == "pixel_values":
        return torch.randn(length // 4, 3, 16, 16, generator=generator)
    return torch.randint(3, TOKENS, (2, length), generator=generator)


def doubled(x: Tensor) -> tuple[Tensor]:
    return (x.double() if x.is_floating_point() else x,)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_training(name: str, compiler: Callable[..., Any]) -> None:
    model, runs = build(name), []
    trained = copy.deepcopy(model)
    compiled = compiler(trained, dynamic=False)
    with collect() as reports:
        for seed in range(3):
            x = inputs(model, 12, seed)
            runs.append(
                (
                    step(trained, compiled, (x,)),
                    step(model, model, (x,)),
                    step(exact := exact_model(model), exact, doubled(x)),
                )
            )
    assert_steps(runs)
    assert [r["kind"] for r in reports] == ["forward", "backward"]
    counts = tuple(n for r in reports for n in (r["kernel_count"] + len(r["calls"]), len(r["calls"])))
    assert all(n <= most for n, most in zip(counts, AT_MOST[name], strict=True)), counts


@pytest.mark.parametrize("name", ["distilbert", "llama", "t5"])
def test_autocast(name: str, compiler: Callable[..., Any]) -> None:
    """In bfloat16 where autocast has it, at another length."""
    model, runs = build(name), []
    trained = copy.deepcopy(model)
    compiled = compiler(trained, dynamic=False)
    for seed in range(3):
        x = inputs(model, 8, seed)
        with torch.autocast("cpu", torch.bfloat16):
            mine, theirs = step(trained, compiled, (x,)), step(model, model, (x,))
        runs.append((mine, theirs, step(exact := exact_model(model), exact, doubled(x))))
    assert_steps(runs)


@pytest.mark.parametrize("name", ["gpt2", "qwen2", "vit"])
def test_lengths_that_change(name: str, compiler: Callable[..., Any]) -> None:
    model = build(name)
    compiled, exact, graphs = compiler(model), exact_model(model), []
    with torch.no_grad():
        for length in (12, 20, 8, 16):
            x = inputs(model, length)
            results = (compiled(x), model(x), exact(*doubled(x)))
            assert_program(*(named(r, "output") for r in results))
            graphs.append(graphs_compiled())
    assert graphs[1:] == [graphs[1]] * 3, f"compiled again: {graphs} graphs"
