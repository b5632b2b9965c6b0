"""Decoders of the transformers library, from configurations of four layers: cases of the first call."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from torch import Tensor, nn

WORDS, WIDTH, LENGTH = 1000, 256, 128

_BASE = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": 4, "num_attention_heads": 8}
_TEXT = _BASE | {"intermediate_size": 512, "max_position_embeddings": 512, "use_cache": False}
_GROUPS = _TEXT | {"num_key_value_heads": 4, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_PAIR = {
    "vocab_size": WORDS,
    "d_model": WIDTH,
    "decoder_layers": 4,
    "decoder_attention_heads": 8,
    "decoder_ffn_dim": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "use_cache": False,
}
_T5 = {
    "vocab_size": WORDS,
    "d_model": WIDTH,
    "d_kv": 32,
    "d_ff": 512,
    "num_layers": 4,
    "num_heads": 8,
    "use_cache": False,
}
_OPT = _BASE | {"ffn_dim": 512, "max_position_embeddings": 512, "word_embed_proj_dim": WIDTH}
_GPT2 = {
    "vocab_size": WORDS,
    "n_embd": WIDTH,
    "n_layer": 4,
    "n_head": 8,
    "n_positions": 512,
    "use_cache": False,
}

#: Model, configuration, its arguments, and what the model is called with.
DECODERS: dict[str, tuple[str, str, dict[str, Any], tuple[str, ...]]] = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", _GROUPS, ("input_ids", "attention_mask")),
    "Qwen2": ("Qwen2ForCausalLM", "Qwen2Config", _GROUPS, ("input_ids", "attention_mask")),
    "Mistral": (
        "MistralForCausalLM",
        "MistralConfig",
        _GROUPS | {"sliding_window": 64},
        ("input_ids", "attention_mask"),
    ),
    "Gemma2": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        _GROUPS | {"head_dim": 32, "sliding_window": 64},
        ("input_ids", "attention_mask"),
    ),
    "Phi": ("PhiForCausalLM", "PhiConfig", _TEXT, ("input_ids", "attention_mask")),
    "GPT-NeoX": ("GPTNeoXForCausalLM", "GPTNeoXConfig", _TEXT, ("input_ids", "attention_mask")),
    "OPT": ("OPTForCausalLM", "OPTConfig", _OPT | {"use_cache": False}, ("input_ids", "attention_mask")),
    "Whisper": (
        "models.whisper.modeling_whisper.WhisperDecoder",
        "WhisperConfig",
        _PAIR,
        ("input_ids", "encoder_hidden_states"),
    ),
    "Granite": ("GraniteForCausalLM", "GraniteConfig", _GROUPS, ("input_ids", "attention_mask")),
    "OLMo2": ("Olmo2ForCausalLM", "Olmo2Config", _GROUPS, ("input_ids", "attention_mask")),
    "Cohere": ("CohereForCausalLM", "CohereConfig", _GROUPS, ("input_ids", "attention_mask")),
    "StarCoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", _GROUPS, ("input_ids", "attention_mask")),
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", _GPT2, ("input_ids", "attention_mask")),
    "T5": ("T5ForConditionalGeneration", "T5Config", _T5, ("input_ids", "decoder_input_ids")),
}


class Called(nn.Module):
    """A model called with positional arguments; gives its first result."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.model(**dict(zip(self.names, inputs, strict=True)))[0]


def _found(path: str) -> Any:
    found: Any = transformers
    for part in path.split("."):
        found = getattr(found, part)
    return found


def build(name: str) -> nn.Module:
    """The model in evaluation mode."""
    model, config, arguments, names = DECODERS[name]
    torch.manual_seed(0)
    return Called(_found(model)(_found(config)(**arguments)), names).eval()


def arguments(name: str, length: int = LENGTH) -> tuple[Tensor, ...]:
    """Inputs for texts of that length."""
    generator = torch.Generator().manual_seed(0)

    def made(what: str) -> Tensor:
        if what == "attention_mask":
            mask = torch.ones(2, length, dtype=torch.long)
            mask[1, -5:] = 0
            return mask
        if what == "encoder_hidden_states":
            return torch.randn(2, 100, WIDTH, generator=generator)
        return torch.randint(3, WORDS, (2, length), generator=generator)

    return tuple(map(made, DECODERS[name][3]))
