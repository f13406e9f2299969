"""Tiny random models of transformers, one for each family, and ours made from them."""

import torch
import transformers

from headwise.layers.conversion import from_hugging_face

VOCABULARY, LONGEST = 50, 40  # texts of 21 tokens: further apart than the first buckets of T5 reach
_BERT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
}
_LLAMA = {**_BERT, "num_key_value_heads": 2, "max_position_embeddings": LONGEST, "pad_token_id": 0}
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": LONGEST}
_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 16,
    "d_kv": 6,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}

# family -> the class of transformers, and its configuration
ENCODERS = {
    "bert": ("BertModel", "BertConfig", {**_BERT, "max_position_embeddings": LONGEST}),
    "mpnet": ("MPNetModel", "MPNetConfig", {**_BERT, "max_position_embeddings": LONGEST + 2}),
}
DECODERS = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", _GPT2),
    "gpt2, scores not scaled": ("GPT2LMHeadModel", "GPT2Config", {**_GPT2, "scale_attn_weights": False}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _LLAMA),
    "llama, tied": ("LlamaForCausalLM", "LlamaConfig", {**_LLAMA, "tie_word_embeddings": True}),
    "llama, biases": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**_LLAMA, "attention_bias": True, "mlp_bias": True, "head_dim": 6},
    ),
    "llama, frequencies scaled": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {
            **_LLAMA,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 100.0,
                "factor": 4.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
    ),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**_LLAMA, "sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**_LLAMA, "tie_word_embeddings": True}),
    "qwen2, windows": (
        "Qwen2ForCausalLM",
        "Qwen2Config",
        {**_LLAMA, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**_LLAMA, "head_dim": 6}),
}
TRANSLATORS = {
    "t5": ("T5ForConditionalGeneration", "T5Config", {**_T5, "feed_forward_proj": "relu"}),
    "t5, gated": (
        "T5ForConditionalGeneration",
        "T5Config",
        {
            **_T5,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 20,
        },
    ),
}
ALL = {**ENCODERS, **DECODERS, **TRANSLATORS}


def theirs(family, **options):
    """A network of transformers in float64, with weights of a size at which every part shows."""
    model, config, sizes = ALL[family]
    torch.manual_seed(0)
    network = getattr(transformers, model)(getattr(transformers, config)(**sizes, **options)).double().eval()
    if family == "t5, gated":  # transformers ties what its first checkpoints did not
        network.lm_head.weight = torch.nn.Parameter(torch.empty_like(network.lm_head.weight))
    with torch.no_grad():
        for parameter in network.parameters():  # biases and norms too: what starts at 0 or 1 would hide
            around = 1.0 if parameter.dim() == 1 and bool((parameter == 1).all()) else 0.0
            parameter.copy_(around + 0.3 * torch.randn_like(parameter))
    return network


def both(family, **options):
    network = theirs(family, **options)
    return network, from_hugging_face(network.state_dict(), network.config)


def tokens(batch=2, length=21):
    return torch.randint(3, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def keep(batch=2, length=21, *, left=0, right=0):
    real = torch.ones(batch, length, dtype=torch.bool)
    real[1, :left] = False
    real[1, length - right :] = False
    return real
