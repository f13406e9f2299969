"""Builds a Hugging Face configuration small, with random weights large enough for faults to show."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from headwise.check.asking import raised
from headwise.check.subjects.signature import Thing, parameters
from headwise.check.subjects.strength import enlarge
from headwise.core.errors import HeadwiseError

LAYERS, WINDOW, PLACES = 2, 6, 128

# what each family calls its sizes; 4 heads of 8, of which keys and values have 2
_SIZES: dict[int, tuple[str, ...]] = {
    32: ("hidden_size", "n_embd", "d_model", "dim", "embedding_size", "emb_dim", "embed_dim",
         "ffn_hidden_size", "word_embed_proj_dim", "lru_width", "q_lora_rank", "kv_lora_rank", "inner_dim",
         "attention_hidden_size", "hidden_size_per_layer_input", "mamba_d_ssm"),
    48: ("intermediate_size", "n_inner", "d_ff", "dff", "d_inner", "ffn_dim", "encoder_ffn_dim",
         "decoder_ffn_dim", "hidden_dim", "ffn_size", "intermediate_size_mlp", "expert_ffn_hidden_size",
         "moe_intermediate_size", "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"),
    LAYERS: ("num_hidden_layers", "n_layer", "num_layers", "num_decoder_layers", "encoder_layers",
             "decoder_layers", "n_layers", "num_encoder_layers", "num_experts_per_tok", "moe_topk", "moe_k",
             "top_k", "top_k_experts", "num_experts_per_token", "num_block_layers", "block_size",
             "attn_layer_period"),
    4: ("num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads",
        "decoder_attention_heads", "num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts",
        "mamba_n_heads"),
    8: ("head_dim", "d_kv", "d_head", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "global_head_dim",
        "attention_head_dim", "mamba_d_state", "index_head_dim", "swa_head_dim", "rotary_dim",
        "mamba_d_head"),
    99: ("vocab_size", "src_vocab_size", "tgt_vocab_size", "vocab_size_per_layer_input"),
    PLACES: ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_source_positions",
             "max_target_positions", "seq_length"),
    WINDOW: ("sliding_window", "window_size", "attention_window_size"),
    1: ("n_group", "topk_group", "first_k_dense_replace", "n_shared_experts", "num_global_layers",
        "expand", "mamba_expand", "attn_layer_offset"),
}  # fmt: skip
_FILLED = {"head_dim": 8, "num_key_value_heads": 4}
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads")
_DERIVED = (
    "model_type",
    "transformers_version",
    "architectures",
    "_attn_implementation",
    "dtype",
    "qk_head_dim",
    "per_layer_config",  # sizes of single layers, which the small ones share
)
_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "sep_token_id",
           "cls_token_id", "mask_token_id", "forced_eos_token_id")  # fmt: skip
_SIZE_OF = {name: size for size, names in _SIZES.items() for name in names}


def built(config: Thing, *, who: str) -> tuple[Any, Callable[[], Any]]:
    """A small model of that configuration's architecture, and what makes another with other random weights.

    Raises HeadwiseError if it cannot be built.
    """
    problem: Exception | None = None
    # not every architecture shares its keys and values, nor works out by itself what it leaves open
    for kv_heads, fill in ((2, False), (4, False), (4, True)):
        try:
            make = partial(_made, smaller(config, kv_heads, fill=fill))
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                tried = make()
                if _reads_tokens(tried):
                    tried(input_ids=torch.tensor([[5, 7, 6]]))
                torch.manual_seed(0)
                return make(), make  # one that was never called, since some change with their first call
        except Exception as error:
            problem = problem or error
    raise HeadwiseError(
        who=who,
        what="the configuration",
        expected="one that can be built small, with random weights",
        got=type(config).__name__,
        why=f"It raises {raised(problem)}" if problem else "It gives no model",
        do="Build the model yourself and pass it",
    ) from problem


@torch.no_grad()
def _made(config: Thing) -> Thing:
    model = _model_class(config).from_config(config).eval()
    enlarge(model)
    return model


def _reads_tokens(model: Thing) -> bool:
    return "input_ids" in parameters(model) and not getattr(model.config, "is_encoder_decoder", False)


def smaller(config: Thing, kv_heads: int = 2, *, fill: bool = False) -> Thing:
    """The same configuration with two small layers: everything that is no size stays.

    With ``fill`` a size of the heads that is None, and so to be derived, is given.
    """
    changes, values = config.to_diff_dict(), config.to_dict()
    layers = next((values[n] for n in _SIZES[LAYERS][:3] if isinstance(values.get(n), int)), None)
    for name, value in values.items():
        inside = vars(config).get(name)
        if _is_config(inside):
            changes[name] = smaller(inside, kv_heads, fill=fill)
        elif fill and value is None and name in _FILLED:
            changes[name] = _FILLED[name]
        elif name in _KV_HEADS and isinstance(value, int):
            changes[name] = min(value, kv_heads)
        elif name in _SIZE_OF and isinstance(value, int) and not isinstance(value, bool) and value > 0:
            changes[name] = min(value, _SIZE_OF[name])
        elif name in _TOKENS and isinstance(value, int) and value > 98:
            changes[name] = 3 + _TOKENS.index(name)
        elif isinstance(value, list) and layers and len(value) == layers:
            changes[name] = [value[0], next((each for each in value if each != value[0]), value[0])]
    for name in _DERIVED:
        changes.pop(name, None)
    return type(config)(**changes)


def _is_config(thing: Thing) -> bool:
    return hasattr(thing, "to_diff_dict") and hasattr(thing, "model_type")


def _model_class(config: Thing) -> Thing:
    """The class with the head its architecture is known for: text from text, next or masked tokens."""
    from transformers.models.auto import modeling_auto as auto

    kind = config.model_type
    if kind in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES and config.is_encoder_decoder:
        return auto.AutoModelForSeq2SeqLM
    if kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and getattr(config, "is_decoder", True):
        return auto.AutoModelForCausalLM
    if kind in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return auto.AutoModelForMaskedLM
    return auto.AutoModel
