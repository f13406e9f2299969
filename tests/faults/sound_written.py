"""Sound: attention as people write it, a small GPT, and caches of all kinds."""

from functools import partial

import torch
from torch import nn

from headwise.check import Tokens, Vectors, batch, cache, causality, receptive_field
from tests.faults.fault import Sound
from tests.faults.parts import HEADS, WIDTH, WINDOW, Layer, PaddedSteps, Steps, back, vectors
from tests.faults.sound import independent, padding
from tests.faults.steppers import WithALiBi, WithDecay, WithGates, WithTable

VOCABULARY = 61


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


def sums(dtype):
    """What is causal and linear and no attention at all."""
    f, inputs = partial(torch.cumsum, dim=1), Vectors(3, dtype)
    return [causality(f, inputs), *independent(f, inputs), receptive_field(f, inputs)]


SOUND = [
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
]
