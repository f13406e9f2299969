"""Sound: x-transformers, and Hugging Face models of several families with random weights."""

import inspect
import warnings
from functools import partial

import torch

from headwise.check import Tokens, cache, causality, equivariance, receptive_field
from tests.faults.fault import Sound
from tests.faults.parts import HEADS, WIDTH, vectors
from tests.faults.sound import independent, padding

VOCABULARY = 61


def x_transformers(dtype, kind, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit.script, which it uses, is deprecated
        import x_transformers

    torch.manual_seed(0)
    layers = getattr(x_transformers, kind)(dim=WIDTH, depth=1, heads=HEADS, attn_dim_head=32, **settings)
    return layers.to(dtype).eval().requires_grad_(False)


def x_transformers_padded(layers, inputs):
    if inputs.dtype == torch.bfloat16:
        return []  # it takes a mask in float32 only
    return padding(lambda x, keep: layers(x, mask=keep), inputs)


def x_transformers_decoder(dtype):
    make = partial(x_transformers, dtype, "Decoder", rotary_pos_emb=True, rotary_emb_dim=32, attn_flash=True)
    layers, inputs = make(), vectors(dtype)
    reports = [causality(layers, inputs), receptive_field(layers, inputs), *independent(layers, inputs, make)]
    return reports + x_transformers_padded(layers, inputs)


def x_transformers_encoder(dtype):
    make = partial(x_transformers, dtype, "Encoder", alibi_pos_bias=True, alibi_num_heads=HEADS)
    layers, inputs = make(), vectors(dtype)
    reports = [receptive_field(layers, inputs, causal=False), *independent(layers, inputs, make)]
    # slopes of 1/16 and 1/256 show at some length
    reports.append(equivariance(layers, inputs, order_blind=False, lengths=(64,)))
    return reports + x_transformers_padded(layers, inputs)


SIZES = {
    "hidden_size": WIDTH,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,  # weights as small as before training make every effect small too
}


def hugging_face(name, dtype, auto="AutoModelForCausalLM", **settings):
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **{**SIZES, **settings})
    model = getattr(transformers, auto).from_config(config)
    return model.to(dtype).eval().requires_grad_(False)


def decoder(name, dtype, positions=True, **settings):
    """A decoder of Hugging Face: causal, padded at both ends, and with its own cache."""
    from transformers import DynamicCache

    model, inputs = hugging_face(name, dtype, **settings), Tokens(VOCABULARY, avoid=(0, 1, 2), dtype=dtype)

    def f(x):
        return model(x, use_cache=False).logits

    argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"

    def padded(x, keep):
        ids = {"position_ids": (keep.cumsum(-1) - 1).clamp(min=0)} if positions else {}
        return model(x, attention_mask=keep.long(), use_cache=False, **ids).logits

    def start():
        past = {argument: DynamicCache(config=model.config)}
        return lambda chunk: model(chunk, use_cache=True, **past).logits

    window = settings.get("sliding_window")
    reports = [causality(f, inputs, lengths=(2, 5, 12)), *independent(f, inputs, depth=2)]
    reports += padding(padded, inputs, depth=2)
    reports.append(
        receptive_field(f, inputs, window=window, depth=2, lengths=(2, 9, 12) if window else (2, 5))
    )
    return [*reports, cache(f, start, inputs, window=window, lengths=(1, 3, 7), depth=2)]


def bert(dtype):
    model = hugging_face("bert", dtype, "AutoModel", pad_token_id=0, add_pooling_layer=False)
    inputs = Tokens(VOCABULARY, avoid=(0,), dtype=dtype)

    def f(x, keep=None):
        keep = torch.ones_like(x, dtype=torch.bool) if keep is None else keep
        positions = (keep.cumsum(-1) - 1).clamp(min=0)
        return model(x, attention_mask=keep.long(), position_ids=positions).last_hidden_state

    reports = [receptive_field(f, inputs, causal=False, lengths=(2, 5)), *independent(f, inputs, depth=2)]
    return [*reports, *padding(f, inputs, depth=2), equivariance(f, inputs, order_blind=False, depth=2)]


SOUND = [
    Sound("x-transformers, Decoder, rotary", x_transformers_decoder),
    Sound("x-transformers, Encoder, ALiBi", x_transformers_encoder),
    Sound("Hugging Face, llama", partial(decoder, "llama")),
    Sound("Hugging Face, gpt2", partial(decoder, "gpt2")),
    Sound("Hugging Face, mistral, window", partial(decoder, "mistral", sliding_window=4)),
    Sound("Hugging Face, bloom", partial(decoder, "bloom", positions=False)),
    Sound("Hugging Face, gpt_neox", partial(decoder, "gpt_neox")),
    Sound("Hugging Face, qwen3", partial(decoder, "qwen3", head_dim=8)),
    Sound("Hugging Face, bert", bert),
]
