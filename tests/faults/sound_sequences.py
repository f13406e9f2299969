"""Sound code of many kinds, on which every property of sequences holds that applies to it."""

import inspect
import warnings
from functools import partial

import torch
from torch import nn

from headwise.check import (
    Tokens,
    Vectors,
    batch,
    cache,
    causality,
    equivariance,
    history,
    left_padding,
    pad_content,
    receptive_field,
    right_padding,
    shift,
)
from headwise.core import Causal, Padding, Prefix, SlidingWindow, attention
from headwise.layers import MultiHeadAttention
from tests.faults.fault import Sound
from tests.faults.parts import HEADS, WIDTH, Layer, PaddedSteps, Steps, back, vectors
from tests.faults.windows import WINDOW, WithALiBi, WithDecay, WithGates, WithTable
from tests.layers.encodings import ENCODINGS

VOCABULARY = 61


def padding(f, inputs, depth=1, left=True):
    sides = (right_padding, left_padding) if left else (right_padding,)
    return [*(side(f, inputs, lengths=(1, 2, 6), depth=depth) for side in sides), pad_content(f, inputs)]


def independent(f, inputs, fresh=None, depth=1):
    return [batch(f, inputs, depth=depth), history(f, inputs, fresh, lengths=(3, 12, 30))]


# headwise's own layer


def built(dtype, encoding, seed=0, **settings):
    torch.manual_seed(seed)
    layer = MultiHeadAttention(WIDTH, heads=HEADS, position=ENCODINGS[encoding](WIDTH, HEADS), **settings)
    return layer.to(dtype).eval().requires_grad_(False)


def padded_call(layer):
    def f(x, keep):
        padding = Padding(keep)
        return layer(x, mask=padding, positions=padding.positions())

    return f


def causal_layer(encoding, dtype):
    make = partial(built, dtype, encoding, mask=Causal())
    layer, inputs = make(), vectors(dtype)
    reports = [causality(layer, inputs), receptive_field(layer, inputs), *independent(layer, inputs, make)]
    reports += padding(padded_call(layer), inputs)
    ways = {"plain": layer, "weights asked": lambda x: layer.with_weights(x).output}
    reports.append(causality(ways, inputs, lengths=(2, 5)))
    return reports + _shifts(layer, inputs)


def full_layer(encoding, dtype):
    make = partial(built, dtype, encoding)
    layer, inputs = make(), vectors(dtype)
    reports = [receptive_field(layer, inputs, causal=False), *independent(layer, inputs, make)]
    reports.append(equivariance(layer, inputs, order_blind=encoding == "none"))
    return reports + padding(padded_call(layer), inputs) + _shifts(layer, inputs)


def _shifts(layer, inputs):
    if not layer.position.relative:
        return []
    return [shift(lambda x, positions: layer(x, positions=positions), inputs)]


def window_layer(dtype):
    layer, inputs = built(dtype, "rotary, halves", mask=Causal() & SlidingWindow(4)), vectors(dtype)
    reports = [receptive_field(layer, inputs, window=4), causality(layer, inputs)]
    return reports + padding(padded_call(layer), inputs) + independent(layer, inputs)


def symmetric_window_layer(dtype):
    layer, inputs = built(dtype, "alibi", mask=SlidingWindow(3, ahead=2)), vectors(dtype)
    return [receptive_field(layer, inputs, window=3, causal=False), *padding(padded_call(layer), inputs)]


def two_window_layers(dtype):
    """Two windows of 3 reach 5 keys."""
    layers = [built(dtype, "alibi", seed, mask=Causal() & SlidingWindow(3)) for seed in (0, 1)]
    return [receptive_field(nn.Sequential(*layers), vectors(dtype), window=3, depth=2)]


def grouped_layer(dtype):
    torch.manual_seed(0)
    layer = MultiHeadAttention(WIDTH, heads=4, kv_heads=2, mask=Causal()).to(dtype).requires_grad_(False)
    return [causality(layer, vectors(dtype)), *independent(layer, vectors(dtype))]


def prefix_layer(dtype):
    layer = built(dtype, "rotary, neighbours", mask=Prefix(3))
    return [*independent(layer, vectors(dtype)), equivariance(layer, vectors(dtype), order_blind=False)]


def softcapped_function(dtype):
    parts = Layer(dtype)

    def f(x):
        q, k, v = parts.project(x)
        return parts.merge(attention(q, k, v, mask=Causal(), softcap=5.0))

    return [causality(f, vectors(dtype)), *independent(f, vectors(dtype))]


# torch's own


def torch_attention(dtype):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.1, batch_first=True, dtype=dtype).eval()

    def f(x, need_weights=False):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return layer(x, x, x, attn_mask=hidden, need_weights=need_weights)[0]

    ways = {"plain": f, "weights asked": lambda x: f(x, need_weights=True)}
    return [
        causality(ways, vectors(dtype)),
        receptive_field(f, vectors(dtype)),
        *independent(f, vectors(dtype)),
    ]


def torch_attention_padded(dtype):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=dtype).eval()

    def f(x, keep):
        return layer(x, x, x, key_padding_mask=~keep, need_weights=False)[0]

    def unpadded(x):
        return f(x, torch.ones(x.shape[:2], dtype=torch.bool))

    blind = equivariance(unpadded, vectors(dtype), order_blind=True)
    return [*padding(f, vectors(dtype)), receptive_field(unpadded, vectors(dtype), causal=False), blind]


def torch_encoder(dtype):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, norm_first=True, batch_first=True, dtype=dtype)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval().requires_grad_(False)

    def f(x):
        hidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=dtype)
        return encoder(x, mask=hidden, is_causal=True)

    def padded(x, keep):
        return encoder(x, src_key_padding_mask=~keep)

    reports = padding(padded, vectors(dtype), depth=2)
    return [causality(f, vectors(dtype)), *independent(f, vectors(dtype), depth=2), *reports]


# written as people write them


class SmallGPT(nn.Module):
    """A token model with learned positions: two blocks, fused attention, a tied head."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "before": nn.LayerNorm(WIDTH),
                    "qkv": nn.Linear(WIDTH, 3 * WIDTH),
                    "out": nn.Linear(WIDTH, WIDTH),
                    "mlp": nn.Sequential(
                        nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH)
                    ),
                }
            )
            for _ in range(2)
        )

    def forward(self, tokens, keep=None):
        keep = torch.ones_like(tokens, dtype=torch.bool) if keep is None else keep
        x = self.tokens(tokens) + self.places((keep.cumsum(-1) - 1).clamp(min=0))
        visible = (back(tokens.shape[1], tokens.shape[1]) >= 0) & keep[:, None, None]
        visible = visible | torch.eye(
            tokens.shape[1], dtype=torch.bool
        )  # a pad sees itself, so no row is empty
        for block in self.blocks:
            q, k, v = (
                part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                for part in block["qkv"](block["before"](x)).chunk(3, -1)
            )
            heads = nn.functional.scaled_dot_product_attention(q, k, v, visible)
            x = x + block["out"](heads.transpose(1, 2).flatten(-2))
            x = x + block["mlp"](x)
        return x @ self.tokens.weight.T


def small_gpt(dtype):
    torch.manual_seed(0)
    model, inputs = SmallGPT().to(dtype).eval(), Tokens(VOCABULARY)
    reports = [causality(model, inputs), *independent(model, inputs, depth=2)]
    return reports + padding(model, inputs, depth=2)


def small_gpt_float_logits(dtype):
    """Scores are converted to float32, which makes them no better than the model's own precision."""
    torch.manual_seed(0)
    model, inputs = SmallGPT().to(dtype).eval(), Tokens(VOCABULARY, dtype=dtype)
    return [batch(lambda x: model(x).float(), inputs, depth=2)]


class Ring(Steps):
    """Keeps the last W - 1 keys from before a chunk: all that its queries may still see."""

    def __call__(self, chunk):
        if self.keys is not None:
            self.keys, self.values = self.keys[:, :, 1 - WINDOW :], self.values[:, :, 1 - WINDOW :]
        return super().__call__(chunk)

    def visible(self, queries, keys):
        behind = back(queries, keys, keys - queries)
        return (behind >= 0) & (behind < self.window)


def cached(kind, dtype, *, window=None):
    settings = (Layer(dtype),) if window is None else (Layer(dtype), window)
    reports = [cache(lambda x: kind(*settings)(x), lambda: kind(*settings), vectors(dtype), window=window)]
    once = lambda x: kind(*settings)(x)  # noqa: E731
    return [*reports, causality(once, vectors(dtype)), receptive_field(once, vectors(dtype), window=window)]


def ring(dtype):
    layer, inputs = Layer(dtype), vectors(dtype)
    return [cache(lambda x: Steps(layer, WINDOW)(x), lambda: Ring(layer, WINDOW), inputs, window=WINDOW)]


def unequal_rows(dtype):
    layer, inputs = Layer(dtype), vectors(dtype)
    once = lambda x: Steps(layer)(x)  # noqa: E731
    return [cache(once, lambda: PaddedSteps(layer), inputs, rows=side) for side in ("left", "right")]


# other libraries


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


def sums(dtype):
    """What is causal and linear and no attention at all."""
    f, inputs = partial(torch.cumsum, dim=1), Vectors(3, dtype)
    return [causality(f, inputs), *independent(f, inputs), receptive_field(f, inputs)]


SOUND = [
    *(Sound(f"headwise, causal, {name}", partial(causal_layer, name)) for name in ENCODINGS),
    *(Sound(f"headwise, full, {name}", partial(full_layer, name)) for name in ENCODINGS),
    Sound("headwise, sliding window", window_layer),
    Sound("headwise, symmetric window", symmetric_window_layer),
    Sound("headwise, two windows in a row", two_window_layers),
    Sound("headwise, grouped heads", grouped_layer),
    Sound("headwise, prefix", prefix_layer),
    Sound("headwise, softcap", softcapped_function),
    Sound("torch, MultiheadAttention, causal", torch_attention),
    Sound("torch, MultiheadAttention, padded", torch_attention_padded),
    Sound("torch, TransformerEncoder", torch_encoder),
    Sound("nanoGPT's form", small_gpt),
    Sound("nanoGPT's form, scores in float32", small_gpt_float_logits),
    Sound("cumulative sums", sums),
    Sound("cache, rotary", partial(cached, Steps)),
    Sound("cache, rotary, window", partial(cached, Steps, window=WINDOW)),
    Sound("cache, ALiBi", partial(cached, WithALiBi)),
    Sound("cache, bias table", partial(cached, WithTable)),
    Sound("cache, gates", partial(cached, WithGates)),
    Sound("cache, xPos", partial(cached, WithDecay)),
    Sound("cache, ring", ring),
    Sound("cache, unequal rows", unequal_rows),
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
