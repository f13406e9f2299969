"""check.layer finds nothing in our own layers: every encoding, every option, and latent attention.

Each encoding comes with an option, in turn, so that one check serves both; a window comes with every third.
"""

import pytest
import torch

from headwise import check
from headwise.core import Causal, SlidingWindow
from headwise.layers import KVCache, MultiHeadAttention, MultiHeadLatentAttention
from tests.layers.encodings import ENCODINGS
from tests.layers.options import OPTIONS

WIDTH, HEADS = 8, 2
# the numbers of "integers" drown all else, which test_layer.py sees it find
NAMES = [name for name in ENCODINGS if name != "integers"]
# these are checked for all there is: one of each way to act, and those that read what is hidden or content
WHOLE = (
    "none",
    "sinusoidal",
    "rotary, halves",
    "alibi",
    "shaw",
    "deberta",
    "cope",
    "forget gate",
    "t5",
    "beit",
)
# the others do with masks what one of those does, and differ in their numbers
OF_NUMBERS = "finite evaluation batch paths lifecycle history shift"


def acts_on_values(name):
    return "values" in ENCODINGS[name](WIDTH, HEADS).acts_on


def paired():
    """(encoding, option, window): what acts on values wants them as wide as a head, so it has no option."""
    options, pairs = list(OPTIONS), []
    for name in NAMES:
        free = not acts_on_values(name)
        pairs.append((name, options[len(pairs) % len(options)] if free else "none", len(pairs) % 3 == 2))
    return pairs


def failures(checked):
    return [(outcome.name, str(outcome.report)) for outcome in checked.failures]


def left_out(checked):
    """What was not checked, but for what a layer is never asked: for want of time, and of make=."""
    names = [outcome.name for outcome in checked.outcomes if outcome.verdict == "not checked"]
    return [name for name in names if name not in ("compiled and exported", "save and load")]


@pytest.mark.parametrize(("name", "option", "window"), paired())
def test_an_encoding_and_an_option(name, option, window):
    torch.manual_seed(0)
    encoding, given = ENCODINGS[name](WIDTH, HEADS), OPTIONS[option](WIDTH, HEADS, WIDTH // HEADS)
    mask, claims = (SlidingWindow(4), "causal window=4") if window else (Causal(), "causal")
    # a norm after the turn, with a weight for each dimension, does not commute with it
    relative = encoding.relative and not (option == "norm after" and "queries and keys" in encoding.acts_on)
    layer = MultiHeadAttention(WIDTH, HEADS, position=encoding, mask=mask, **given)
    only = () if name in WHOLE else OF_NUMBERS
    checked = check.layer(layer, expect=claims + " relative" * relative, only=only)
    assert failures(checked) == []
    assert left_out(checked) == ([] if only else ["cache"])
    assert checked.calls < 800  # of a layer that takes about 1 ms
    if not only:
        assert "keep is passed as mask=Padding(keep)" in checked.assumed


def test_every_option_is_among_them():
    assert {option for _, option, _ in paired()} == set(OPTIONS)


@pytest.mark.parametrize("query_rank", [None, 4])
def test_latent_attention_with_its_cache(query_rank):
    torch.manual_seed(0)
    sizes = {"kv_rank": 6, "head_dim": 4, "rotary_dim": 2, "query_rank": query_rank}
    layer = MultiHeadLatentAttention(WIDTH, HEADS, mask=Causal(), **sizes)

    def start(module):
        cache = KVCache()
        return lambda chunk: module(chunk, cache=cache)

    checked = check.layer(layer, expect="causal relative", start=start)
    assert failures(checked) == []
    assert left_out(checked) == []


@pytest.mark.parametrize(("name", "claim"), [("sinusoidal", "relative"), ("alibi", "window=4")])
def test_a_false_claim_of_ours_fails(name, claim):
    layer = MultiHeadAttention(WIDTH, HEADS, position=ENCODINGS[name](WIDTH, HEADS), mask=Causal())
    assert failures(check.layer(layer, expect=claim, only="shift receptive-field causality"))
