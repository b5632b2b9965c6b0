"""Families of the transformers library, each with a small configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Keys of results that are caches, not tensors.
CACHED = ("past_key_values", "cache_params", "mems", "state")


@dataclass(frozen=True)
class Family:
    """A model; `caches`: the kinds that it can be called with; `shape`: of what is no text, with no batch."""

    kind: str
    model: str
    arguments: dict[str, Any] = field(default_factory=dict)
    caches: tuple[str, ...] = ()
    masks: bool = False
    main: str = "input_ids"
    shape: tuple[int, ...] = ()
    configuration: str = ""

    @property
    def config(self) -> str:
        if self.configuration:
            return self.configuration
        stem = self.model
        for end in ("ForConditionalGeneration", "ForCausalLM", "LMHeadModel", "Model"):
            stem = stem.removesuffix(end)
        return stem + "Config"


BASE = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT = BASE | {"intermediate_size": 48, "max_position_embeddings": 64}
GROUPED = TEXT | {"num_key_value_heads": 2, "pad_token_id": 0}
TWO = {
    "vocab_size": 64,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
IMAGE = {k: v for k, v in BASE.items() if k != "vocab_size"} | {
    "intermediate_size": 48,
    "image_size": 16,
    "patch_size": 4,
}
SOUND = BASE | {
    "intermediate_size": 48,
    "conv_dim": (16, 16),
    "conv_stride": (4, 4),
    "conv_kernel": (8, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
}
BOTH = ("dynamic", "static")


def decoder(
    model: str, arguments: dict[str, Any] = GROUPED, caches: tuple[str, ...] = BOTH, configuration: str = ""
) -> Family:
    return Family("decoder", model, arguments, caches, masks=True, configuration=configuration)


def encoder(model: str, arguments: dict[str, Any] = TEXT) -> Family:
    return Family("encoder", model, arguments, masks=True)


def pair(model: str, arguments: dict[str, Any] = TWO, configuration: str = "") -> Family:
    return Family("encoder-decoder", model, arguments, masks=True, configuration=configuration)


def vision(model: str, arguments: dict[str, Any] = IMAGE, size: int = 16) -> Family:
    return Family("vision", model, arguments, main="pixel_values", shape=(3, size, size))


MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
FAMILIES: dict[str, Family] = {
    # decoders
    "llama": decoder("LlamaForCausalLM"),
    "mistral": decoder("MistralForCausalLM", GROUPED | {"sliding_window": 8}),
    "qwen2": decoder("Qwen2ForCausalLM"),
    "qwen3": decoder("Qwen3ForCausalLM", GROUPED | {"head_dim": 8}),
    "gemma": decoder("GemmaForCausalLM", GROUPED | {"head_dim": 8}),
    "gemma2": decoder("Gemma2ForCausalLM", GROUPED | {"head_dim": 8, "sliding_window": 8}),
    "gemma3": decoder(
        "Gemma3ForCausalLM", GROUPED | {"head_dim": 8, "sliding_window": 8}, configuration="Gemma3TextConfig"
    ),
    "phi": decoder("PhiForCausalLM", TEXT),
    "phi3": decoder("Phi3ForCausalLM", GROUPED),
    "gpt2": decoder(
        "GPT2LMHeadModel", {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    ),
    "gpt_neo": decoder(
        "GPTNeoForCausalLM",
        {
            "vocab_size": 64,
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "max_position_embeddings": 64,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 8,
        },
        ("dynamic",),
    ),
    "gpt_neox": decoder("GPTNeoXForCausalLM", TEXT),
    "gptj": decoder(
        "GPTJForCausalLM",
        {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4},
    ),
    "opt": decoder(
        "OPTForCausalLM", BASE | {"ffn_dim": 48, "max_position_embeddings": 64, "word_embed_proj_dim": 32}
    ),
    "bloom": decoder("BloomForCausalLM", {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "falcon": decoder("FalconForCausalLM", BASE | {"multi_query": False}),
    "mpt": decoder(
        "MptForCausalLM",
        {"vocab_size": 64, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64},
        ("dynamic",),
    ),
    "starcoder2": decoder("Starcoder2ForCausalLM"),
    "stablelm": decoder("StableLmForCausalLM"),
    "olmo": decoder("OlmoForCausalLM"),
    "olmo2": decoder("Olmo2ForCausalLM"),
    "cohere": decoder("CohereForCausalLM"),
    "granite": decoder("GraniteForCausalLM"),
    "smollm3": decoder("SmolLM3ForCausalLM"),
    "biogpt": decoder("BioGptForCausalLM", TEXT),
    "xglm": decoder(
        "XGLMForCausalLM",
        {
            "vocab_size": 64,
            "d_model": 32,
            "num_layers": 2,
            "attention_heads": 4,
            "ffn_dim": 48,
            "max_position_embeddings": 64,
        },
        ("dynamic",),
    ),
    "mixtral": decoder("MixtralForCausalLM", GROUPED | {"num_local_experts": 4}),
    "qwen3_moe": decoder("Qwen3MoeForCausalLM", GROUPED | MOE | {"head_dim": 8}),
    "mamba": decoder("MambaForCausalLM", BASE | {"state_size": 4}, ()),
    # encoders and decoders
    "t5": pair(
        "T5ForConditionalGeneration",
        {
            "vocab_size": 64,
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": 0,
        },
    ),
    "bart": pair("BartForConditionalGeneration"),
    "mbart": pair("MBartForConditionalGeneration"),
    "pegasus": pair("PegasusForConditionalGeneration"),
    "marian": pair("MarianMTModel", configuration="MarianConfig"),
    "blenderbot": pair("BlenderbotForConditionalGeneration"),
    "m2m_100": pair("M2M100ForConditionalGeneration"),
    "whisper": Family(
        "encoder-decoder",
        "WhisperForConditionalGeneration",
        {k: v for k, v in TWO.items() if k != "max_position_embeddings"}
        | {"num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32},
        main="input_features",
        shape=(8, 32),
    ),
    # encoders
    "bert": encoder("BertModel"),
    "roberta": encoder("RobertaModel", TEXT | {"pad_token_id": 1}),
    "distilbert": encoder(
        "DistilBertModel",
        {
            "vocab_size": 64,
            "dim": 32,
            "hidden_dim": 48,
            "n_layers": 2,
            "n_heads": 4,
            "max_position_embeddings": 64,
        },
    ),
    "albert": encoder("AlbertModel", TEXT | {"embedding_size": 16}),
    "electra": encoder("ElectraModel", TEXT | {"embedding_size": 16}),
    "mpnet": encoder("MPNetModel"),
    "deberta_v2": encoder(
        "DebertaV2Model",
        TEXT | {"relative_attention": True, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"]},
    ),
    "modernbert": encoder("ModernBertModel", TEXT | {"pad_token_id": 0, "local_attention": 8}),
    "wav2vec2": Family("encoder", "Wav2Vec2Model", SOUND, main="input_values", shape=(320,)),
    "hubert": Family("encoder", "HubertModel", SOUND, main="input_values", shape=(320,)),
    # images
    "vit": vision("ViTModel"),
    "deit": vision("DeiTModel"),
    "beit": vision("BeitModel", IMAGE | {"use_relative_position_bias": True}),
    "dinov2": vision("Dinov2Model", IMAGE),
    "clip": vision("CLIPVisionModel"),
    "siglip": vision("SiglipVisionModel"),
    "swin": vision(
        "SwinModel",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 4],
            "window_size": 4,
        },
        32,
    ),
    "convnext": vision("ConvNextModel", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}, 32),
    "resnet": vision("ResNetModel", {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1]}, 32),
    "regnet": vision(
        "RegNetModel",
        {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1], "groups_width": 8},
        32,
    ),
    "mobilenet_v2": vision("MobileNetV2Model", {"image_size": 32, "depth_multiplier": 0.25}, 32),
    "mobilevit": vision(
        "MobileViTModel",
        {"image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 24, 32]},
        64,
    ),
    "segformer": vision(
        "SegformerModel",
        {
            "image_size": 32,
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
        },
        32,
    ),
    "poolformer": vision(
        "PoolFormerModel",
        {
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "num_encoder_blocks": 2,
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "padding": [2, 1],
        },
        32,
    ),
}
