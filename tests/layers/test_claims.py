"""What an encoding says of itself, held against what it does."""

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.layers import PositionalEncoding
from headwise.layers.positions.listing import every_encoding as every_encoding_class
from tests.layers.encodings import (
    ABSOLUTE,
    CACHEABLE,
    ENCODINGS,
    MOST_POSITIONS,
    RELATIVE,
    bias_of,
    layer_with,
    words,
)

every_encoding = pytest.mark.parametrize("name", ENCODINGS)
PLACES = {"embeddings": "embed", "queries and keys": "rotate", "scores": "bias", "values": "value_bias"}
MODEL_DIM, HEADS, LENGTH = 8, 2, 6


def build(name):
    return ENCODINGS[name](MODEL_DIM, HEADS).double()


def test_the_table_holds_every_encoding():
    """Every one there is, exported or not: a file in the folder is enough to be asked for its line."""
    here = {type(getattr(encoding, "encoding", encoding)) for encoding in map(build, ENCODINGS)}
    assert here == set(every_encoding_class())


@every_encoding
def test_every_claim_is_made(name):
    encoding = build(name)
    assert set(encoding.acts_on) <= set(PLACES)
    assert all(
        isinstance(claim, bool) for claim in (encoding.relative, encoding.any_length, encoding.cacheable)
    )
    assert "arXiv" in encoding.source or encoding.source == "a counter-example"


@every_encoding
def test_it_overrides_what_it_says_it_acts_on_and_nothing_else(name):
    overridden = {
        place
        for place, method in PLACES.items()
        if getattr(type(build(name)), method) is not getattr(PositionalEncoding, method)
    }
    assert overridden == set(build(name).acts_on)


@every_encoding
def test_it_has_an_effect_where_it_says_and_nowhere_else(name):
    encoding, at = build(name), torch.arange(1, LENGTH + 1)
    x, q, k = words(2, LENGTH, MODEL_DIM), words(2, HEADS, LENGTH, 4), words(2, HEADS, LENGTH, 4)
    assert ("embeddings" in encoding.acts_on) != torch.equal(encoding.embed(x, at), x)
    turned = encoding.rotate(q, k, at, at)
    for before, after in zip((q, k), turned, strict=True):
        assert ("queries and keys" in encoding.acts_on) != torch.equal(after, before)
    if "scores" in encoding.acts_on:
        assert bias_of(encoding, q, k, at, at, tokens=x).any()
    else:
        with pytest.raises(NotImplementedError, match="does not act on the scores"):
            encoding.bias(q, k, at, at, None)
    weights = (q @ k.mT).softmax(-1)
    if "values" in encoding.acts_on:
        assert encoding.value_bias(weights, at, at).any()
    else:
        with pytest.raises(NotImplementedError, match="does not act on the values"):
            encoding.value_bias(weights, at, at)


# Angles near 4,099 are right to 4099 * 2^-53 = 5e-13, a score of a few terms to about ten times that.
SHIFTED = {"rtol": 0.0, "atol": 1e-11}


@pytest.mark.parametrize("shift", [17, 4099])
@pytest.mark.parametrize("name", RELATIVE)
def test_a_relative_one_does_not_notice_a_shift(name, shift):
    layer, x = layer_with(name), words(2, LENGTH, MODEL_DIM)
    moved = layer(x, positions=torch.arange(LENGTH) + shift)
    torch.testing.assert_close(moved, layer(x), **SHIFTED)


@pytest.mark.parametrize("shift", [17, 4099])
@pytest.mark.parametrize("name", ABSOLUTE)
def test_an_absolute_one_does(name, shift):
    layer, x = layer_with(name), words(2, LENGTH, MODEL_DIM)
    moved = layer(x, positions=torch.arange(LENGTH) + shift)
    assert (moved - layer(x)).abs().max() > 1e-3


@every_encoding
def test_any_length(name):
    layer, x = layer_with(name), words(1, 2, MODEL_DIM)
    for far in (MOST_POSITIONS, 100_003, 2**24 + 1):
        for at in (torch.tensor([far - 1, far]), torch.tensor([1, far])):
            if layer.position.any_length:
                assert layer(x, positions=at).isfinite().all()
    if not layer.position.any_length:
        with pytest.raises(HeadwiseError, match=r"(positions|rows apart) must be from"):
            layer(x, positions=torch.tensor([1, far]))


def keys_change(name):
    """Whether the encoded first tokens are others once more tokens came, to a few roundings of float64.

    Not to the last bit: a product of complex numbers is rounded one way in a vector and another outside, and
    products with more keys may add their few terms in another order.
    """
    encoding = build(name)
    x, k = words(1, 8 * LENGTH, MODEL_DIM), words(1, HEADS, 8 * LENGTH, 4)
    at = torch.arange(8 * LENGTH)
    short, long = slice(0, LENGTH), slice(0, 8 * LENGTH)
    pairs = [(encoding.embed(x[:, short], at[short]), encoding.embed(x[:, long], at[long])[:, short])]
    turned = encoding.rotate(k[:, :, short], k[:, :, short], at[short], at[short])[1]
    turned_later = encoding.rotate(k[:, :, long], k[:, :, long], at[long], at[long])[1]
    pairs.append((turned, turned_later[:, :, short]))
    if "scores" in encoding.acts_on:
        bias = bias_of(encoding, k[:, :, short], k[:, :, short], at[short], at[short], tokens=x[:, short])
        bias_later = bias_of(encoding, k[:, :, short], k[:, :, long], at[short], at[long], tokens=x[:, long])
        pairs.append((bias, bias_later[..., short]))
    kept, kept_later = encoding.features(x[:, short]), encoding.features(x[:, long])
    pairs += [] if kept is None else [(kept, kept_later[..., short])]
    return not all(torch.allclose(now, later, rtol=1e-13, atol=1e-13) for now, later in pairs)


@every_encoding
def test_a_key_changes_as_the_sequence_grows_only_if_the_encoding_says_so(name):
    assert keys_change(name) == (name not in CACHEABLE)


@every_encoding
def test_nothing_is_kept_between_calls(name):
    """A long input first, then a short one, is the short one alone."""
    layer, x = layer_with(name), words(1, LENGTH, MODEL_DIM)
    alone = layer(x)
    layer(words(1, 5 * LENGTH, MODEL_DIM), positions=torch.arange(5 * LENGTH).flip(0))
    assert torch.equal(layer(x), alone)


@every_encoding
def test_positions_of_rows_are_each_row_alone(name):
    layer, x = layer_with(name), words(3, LENGTH, MODEL_DIM)
    at = torch.stack([torch.arange(LENGTH) + 5, torch.arange(LENGTH).flip(0), torch.arange(LENGTH) * 7])
    together = layer(x, positions=at)
    for row in range(3):
        for alone in (at[row], at[row : row + 1]):
            output = layer(x[row : row + 1], positions=alone)
            torch.testing.assert_close(output, together[row : row + 1], rtol=0.0, atol=1e-12)
    assert torch.equal(layer(x, positions=at.int()), together)
