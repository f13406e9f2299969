"""One token at a time, with a cache, beside the attention layers of other libraries.

    python benchmarks/decoding.py [--quick]

Every layer has rotary positions, model_dim 512, 8 heads, float32, and the same number of tokens behind it. A
round is one step of each; the ratio is to headwise's growing cache in the same round.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch
from peers import Contender
from rounds import forward_times

from headwise.core import Causal, SlidingWindow
from headwise.layers import FixedCache, KVCache, MultiHeadAttention, RingCache, Rotary

MODEL_DIM, HEADS, WINDOW = 512, 8, 512
PAST = (2048, 16_384)
ROUNDS = 60


def steppers(past: int) -> tuple[list[Contender], list[str]]:
    """A layer of each kind, already past that many tokens; and the peers that are not installed."""
    prompt = torch.randn(1, past, MODEL_DIM)
    layer = MultiHeadAttention(MODEL_DIM, HEADS, position=Rotary(), mask=Causal()).eval()
    windowed = MultiHeadAttention(
        MODEL_DIM, HEADS, position=Rotary(), mask=Causal() & SlidingWindow(WINDOW)
    ).eval()
    found = []
    for name, module, cache in (
        ("headwise", layer, KVCache()),
        ("headwise, fixed memory", layer, FixedCache(past + 2 * ROUNDS)),
        ("headwise, 8 bits", layer, KVCache(bits=8)),
        (f"headwise, window {WINDOW}, ring", windowed, RingCache(WINDOW)),
    ):
        module(prompt, cache=cache)
        found.append(Contender(name, module, lambda x, module=module, cache=cache: module(x, cache=cache)))
    missing = []
    for name, make in (("transformers", _llama), ("x-transformers", _x_transformers)):
        try:
            found.append(make(prompt))
        except ImportError:
            missing.append(name)
    return found, missing


def _llama(prompt: torch.Tensor) -> Contender:
    from transformers import DynamicCache, LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=MODEL_DIM,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        attn_implementation="sdpa",
        max_position_embeddings=2**17,
    )
    layer, rotary, cache = LlamaAttention(config, layer_idx=0).eval(), LlamaRotaryEmbedding(config), None

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal cache
        cache = DynamicCache(config=config) if cache is None else cache
        first = cache.get_seq_length()
        turns = rotary(x, torch.arange(first, first + x.shape[1])[None])
        return layer(x, position_embeddings=turns, attention_mask=None, cache=cache)[0]

    step(prompt)
    return Contender("HF Llama, dynamic cache", layer, step)


def _x_transformers(prompt: torch.Tensor) -> Contender:
    from x_transformers.x_transformers import Attention, RotaryEmbedding

    layer = Attention(MODEL_DIM, heads=HEADS, dim_head=MODEL_DIM // HEADS, causal=True, flash=True).eval()
    rotary, kept, count = RotaryEmbedding(MODEL_DIM // HEADS), None, 0

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal kept, count
        count += x.shape[1]
        output, kept = layer(
            x, rotary_pos_emb=rotary.forward_from_seq_len(count), cache=kept, return_intermediates=True
        )
        return output

    step(prompt)
    return Contender("x-transformers", layer, step)


def measure(quick: bool = False) -> tuple[dict[int, dict], list[str]]:
    """Times by number of tokens behind, and the peers that are missing."""
    torch.manual_seed(0)
    found, missing = {}, []
    with torch.no_grad():
        for past in (256,) if quick else PAST:
            print(f"decoding after {past:,} tokens", file=sys.stderr, flush=True)
            contenders, missing = steppers(past)
            token = torch.randn(1, 1, MODEL_DIM)
            found[past] = forward_times(contenders, token, 5 if quick else ROUNDS, time.perf_counter)
    return found, missing


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a short cache and few rounds: does it run?")
    found, missing = measure(parser.parse_args().quick)
    from tables import show_ratios

    for past, times in found.items():
        show_ratios(f"One token after {past:,}", {"a step": times})
    for name in missing:
        print(f"{name}: not installed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
