"""Rotary pairs in the other layout: the same outputs; and the layout read off code and off weights."""

import pytest
import torch
from torch import nn

from headwise.core import Causal, HeadwiseError
from headwise.layers import (
    ALiBi,
    AxialRotary,
    MixedRotary,
    MultiHeadAttention,
    MultimodalRotary,
    NormAfterRotation,
    NormBeforeRotation,
    Rotary,
    XPos,
    grid_positions,
)
from headwise.layers.conversion import pairs_of_function, pairs_of_weights, reorder_pairs, with_pairs

CLOSE = {"atol": 1e-13, "rtol": 0}  # float64, one layer, numbers of size 1


def layer(pairs, **options):
    torch.manual_seed(0)
    made = MultiHeadAttention(12, heads=2, kv_heads=1, position=Rotary(pairs=pairs, **options), mask=Causal())
    made.head_norm = NormBeforeRotation(nn.LayerNorm(6), nn.LayerNorm(6))
    made = made.double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.normal_()
    return made


@pytest.mark.parametrize("dims", [None, 4])
@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
def test_a_layer_in_the_other_layout_gives_the_same(pairs, dims):
    ours = layer(pairs, dims=dims)
    other = with_pairs(ours, "neighbours" if pairs == "halves" else "halves")
    x = torch.randn(2, 9, 12).double()
    torch.testing.assert_close(other(x), ours(x), **CLOSE)
    assert other.position.pairs != ours.position.pairs
    assert not torch.equal(other.query.weight, ours.query.weight)
    assert torch.equal(other.value.weight, ours.value.weight)
    ours.position = other.position  # the layout alone, without the rows: wrong
    assert not torch.allclose(other(x), ours(x), atol=1e-3)


def test_there_and_back_and_nowhere():
    ours = layer("halves")
    back = with_pairs(with_pairs(ours, "neighbours"), "halves")
    same = with_pairs(ours, "halves")
    for name, weight in ours.state_dict().items():
        assert torch.equal(back.state_dict()[name], weight)
        assert torch.equal(same.state_dict()[name], weight)
    assert same.query.weight is not ours.query.weight


OTHERS = {
    "xpos": lambda: XPos(pairs="neighbours"),
    "axial": lambda: AxialRotary(pairs="neighbours"),
    "mixed": lambda: MixedRotary(heads=2, head_dim=8, pairs="neighbours"),
    "multimodal": lambda: MultimodalRotary((2, 2), pairs="neighbours"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_encodings_that_turn(kind):
    torch.manual_seed(0)
    position = OTHERS[kind]()
    ours = MultiHeadAttention(16, heads=2, position=position, mask=Causal()).double()
    ours.head_norm = NormAfterRotation(nn.RMSNorm(8), nn.RMSNorm(8)).double()
    with torch.no_grad():
        ours.head_norm.query.weight.normal_()
    x = torch.randn(1, 6, 16).double()
    at = {} if position.axes == 1 else {"positions": grid_positions(2, 3)}
    other = with_pairs(ours, "halves")
    torch.testing.assert_close(other(x, **at), ours(x, **at), **CLOSE)
    assert (other.position.pairs, ours.position.pairs) == ("halves", "neighbours")


def test_a_layer_that_does_not_turn_is_refused():
    for position in (ALiBi(2), AxialRotary(pairs="axis halves")):
        with pytest.raises(HeadwiseError, match="position must be an encoding that turns queries and keys"):
            with_pairs(MultiHeadAttention(16, 2, position=position), "halves")


def test_the_layout_of_the_code_of_others():
    from transformers.models.gptj import modeling_gptj
    from transformers.models.llama import modeling_llama

    angle = torch.tensor([1.0, 0.1, 0.01])

    def llama(q, positions):
        turn = (positions * torch.cat((angle, angle)))[None, None]
        return modeling_llama.apply_rotary_pos_emb(q, q, turn.cos(), turn.sin())[0]

    def gptj(q, positions):
        turn = (positions * angle)[None, None]
        return modeling_gptj.apply_rotary_pos_emb(q, turn.sin(), turn.cos())

    assert pairs_of_function(llama, head_dim=6) == "halves"
    assert pairs_of_function(gptj, head_dim=6) == "neighbours"
    for head_dim, turn in ((6, lambda q, positions: q), (2, Rotary().turn)):
        with pytest.raises(HeadwiseError, match="the turn of dimension 0 must be into dimension 1 or"):
            pairs_of_function(turn, head_dim)


def test_fast_and_slow_pairs_show_the_layout():
    """Rows that shrink from fast to slow pairs, with noise, as training leaves them."""
    torch.manual_seed(0)
    sizes = torch.linspace(1, 3, 8).repeat(2)[None, :, None]  # stored as halves: fast to slow, twice
    rows = (torch.randn(64, 16, 32) * sizes).flatten(0, 1)
    assert pairs_of_weights(rows, heads=64) == "halves"
    assert pairs_of_weights([reorder_pairs(rows, 64, to="neighbours")], heads=64) == "neighbours"
    with pytest.raises(HeadwiseError, match=r"row lengths must be above 0\.71 or below -0\.71, got"):
        pairs_of_weights(torch.randn(64, 32), heads=4)


def test_the_layout_of_a_trained_model(smollm2):
    config, state = smollm2.network.config, smollm2.network.state_dict()
    for part, heads in (("q", config.num_attention_heads), ("k", config.num_key_value_heads)):
        given = [weight for name, weight in state.items() if name.endswith(f"{part}_proj.weight")]
        assert len(given) == 30
        assert pairs_of_weights(given, heads) == "halves"
        other = [reorder_pairs(weight, heads, to="neighbours") for weight in given]
        assert pairs_of_weights(other, heads) == "neighbours"
