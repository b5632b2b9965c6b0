"""Architectures of the transformers library, small: forward and backward, two precisions, changing lengths.

How many kernels a forward and a backward have, and what they call, is stated: fewer is better, more needs a
reason.
"""

import copy
import os
from collections import Counter
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
LENGTHS = {"float32": 12, "bfloat16": 8}
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
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
    "roberta": ("RobertaModel", "RobertaConfig", TEXT | {"pad_token_id": 1}),
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
    "whisper": (
        "WhisperModel",
        "WhisperConfig",
        {
            "vocab_size": TOKENS,
            "num_mel_bins": 8,
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "max_source_positions": 16,
            "max_target_positions": 32,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
            "use_cache": False,
        },
    ),
}

#: At most, of a forward and of its backward. Under autocast each parameter of a product is cast by a kernel.
COUNTS: dict[tuple[str, str], tuple[str, str]] = {
    ("bert", "float32"): ("22 kernels", "66 kernels"),
    ("roberta", "float32"): ("23 kernels", "66 kernels"),
    ("distilbert", "float32"): ("21 kernels", "61 kernels"),
    ("gpt2", "float32"): ("21 kernels", "53 kernels"),
    ("llama", "float32"): ("36 kernels", "68 kernels"),
    ("mistral", "float32"): ("37 kernels", "68 kernels"),
    ("qwen2", "float32"): ("36 kernels", "74 kernels"),
    ("gemma", "float32"): ("36 kernels", "68 kernels"),
    ("phi", "float32"): ("32 kernels", "73 kernels, 2 clone"),
    ("mamba", "float32"): ("23 kernels, 1 bmm, 1 convolution", "54 kernels, 1 bmm, 1 convolution_backward"),
    ("t5", "float32"): ("24 kernels", "49 kernels"),
    ("vit", "float32"): ("23 kernels, 1 convolution", "64 kernels, 1 convolution_backward"),
    ("clip", "float32"): ("24 kernels, 1 convolution", "64 kernels, 1 convolution_backward"),
    ("whisper", "float32"): ("36 kernels, 2 convolution", "84 kernels, 2 convolution_backward"),
    ("bert", "bfloat16"): ("36 kernels", "77 kernels"),
    ("roberta", "bfloat16"): ("37 kernels", "77 kernels"),
    ("distilbert", "bfloat16"): ("33 kernels", "71 kernels"),
    ("gpt2", "bfloat16"): ("36 kernels", "66 kernels"),
    ("llama", "bfloat16"): ("51 kernels", "87 kernels"),
    ("mistral", "bfloat16"): ("51 kernels", "87 kernels"),
    ("qwen2", "bfloat16"): ("51 kernels", "93 kernels"),
    ("gemma", "bfloat16"): ("51 kernels", "87 kernels"),
    ("phi", "bfloat16"): ("47 kernels", "86 kernels, 2 clone"),
    ("mamba", "bfloat16"): ("28 kernels", "62 kernels"),
    ("t5", "bfloat16"): ("48 kernels", "72 kernels"),
    ("vit", "bfloat16"): ("40 kernels", "82 kernels"),
    ("clip", "bfloat16"): ("38 kernels", "80 kernels"),
    ("whisper", "bfloat16"): ("57 kernels", "107 kernels"),
}


class Plain(nn.Module):
    """The model as a function of one tensor to a tuple of tensors; `spoken`: of what there is to hear too."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model = model
        spoken = name == "input_features"
        self.name = "decoder_input_ids" if spoken else name
        self.register_buffer("spoken", torch.randn(2, 8, 32) if spoken else None)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        more = {} if self.spoken is None else {"input_features": self.spoken}
        result = self.model(**{self.name: x}, **more)
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


def counts(report: dict[str, Any]) -> Counter[str]:
    """Kernels, and calls by operator, of a graph."""
    names = [target.split(".")[1].replace(ATTENTION, "attention") for target, *_ in report["calls"]]
    return Counter(names, kernels=report["kernel_count"])


def read(text: str) -> Counter[str]:
    return Counter({name: int(n) for n, name in (part.split() for part in text.split(", "))})


@pytest.mark.in_turn(16)
@pytest.mark.parametrize("precision", LENGTHS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_training(name: str, precision: str, compiler: Callable[..., Any]) -> None:
    """In float32, and in bfloat16 where autocast has it, at another length."""
    model, runs = build(name), []
    trained = copy.deepcopy(model)
    options = {}
    if (
        precision == "bfloat16"
    ):  # float32 has had gcc's code; by default the processor says what bfloat16 gets
        options = {"tier": "tcc", "products": "own"}
    compiled = compiler(trained, dynamic=False, options=options)
    with collect() as reports:
        for seed in range(3):
            x = inputs(model, LENGTHS[precision], seed)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
                mine, theirs = step(trained, compiled, (x,)), step(model, model, (x,))
            runs.append((mine, theirs, step(exact := exact_model(model), exact, doubled(x))))
    assert_steps(runs)
    assert [r["kind"] for r in reports] == ["forward", "backward"]
    for report, most in zip(reports, COUNTS[name, precision], strict=True):
        assert counts(report) <= read(most)


@pytest.mark.in_turn(3)
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
