"""Multimodal rotary against its formula and two of Qwen's models, and equal to plain rotary on text."""

import pytest
import torch
from transformers import Qwen2VLTextConfig, Qwen3VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLRotaryEmbedding, apply_rotary_pos_emb
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

from headwise.layers import DynamicNTK, MultimodalRotary, NTKAware, Rotary, multimodal_positions
from tests.layers.encodings import words
from tests.layers.oracles import rotary as oracle
from tests.layers.test_rotary_axes import EXACT, LAYOUTS, by_formula


@pytest.mark.parametrize("pairs", ["halves", "neighbours"])
@pytest.mark.parametrize(
    ("arrangement", "axes"), [("runs", [0, 0, 1, 1, 1, 2, 2, 2]), ("interleaved", [0, 1, 2, 0, 1, 2, 0, 1])]
)
def test_multimodal_against_the_formula(pairs, arrangement, axes):
    rotary = MultimodalRotary((2, 3, 3), arrangement=arrangement, pairs=pairs)
    assert rotary.axis_of_pairs() == axes
    positions = multimodal_positions(3, (2, 3, 4), 2)
    x = words(1, 1, len(positions), 16)
    expected = by_formula(
        x, positions, lambda at: oracle.multimodal_angles(16, at, axes), LAYOUTS[pairs](16, 3)
    )
    torch.testing.assert_close(rotary.turn(x, positions), expected, **EXACT)


def test_strided_sections_end_with_the_head():
    """8, 12, 12 of 32 pairs: the stride gives the axes 11, 11 and 10."""
    axes = MultimodalRotary((8, 12, 12), arrangement="interleaved").axis_of_pairs()
    assert [axes.count(axis) for axis in range(3)] == [11, 11, 10]
    assert MultimodalRotary((24, 20, 20), arrangement="interleaved").axis_of_pairs()[58:] == [
        1,
        2,
        0,
        0,
        0,
        0,
    ]


@pytest.mark.parametrize("arrangement", ["runs", "interleaved"])
@pytest.mark.parametrize(
    "how", [{}, {"scaling": NTKAware(4.0)}, {"scaling": DynamicNTK(2.0, 4), "length": "positions"}]
)
def test_text_is_plain_rotary(arrangement, how):
    x, at = words(2, 3, 9, 16), torch.arange(9) + 3
    rotary = MultimodalRotary((2, 3, 3), 500.0, arrangement=arrangement, **how)
    turned = rotary.turn(x, at[:, None].expand(-1, 3))
    torch.testing.assert_close(turned, Rotary(500.0, **how).turn(x, at), **EXACT)


def rope(*sections):
    return {"rope_type": "default", "rope_theta": 1e6, "mrope_section": list(sections)}


SIZES = {"hidden_size": 64, "num_attention_heads": 2}


QWENS = {
    "in runs": (Qwen2VLTextConfig(**SIZES, rope_parameters=rope(4, 6, 6)), Qwen2_5_VLRotaryEmbedding),
    "interleaved": (
        Qwen3VLTextConfig(**SIZES, head_dim=32, rope_parameters=rope(6, 5, 5)),
        Qwen3VLTextRotaryEmbedding,
    ),
}


@pytest.mark.parametrize("name", QWENS)
def test_multimodal_against_qwen(name):
    config, theirs = QWENS[name]
    positions, x = multimodal_positions(3, (2, 3, 4), 4), torch.randn(1, 2, 31, 32)
    cosine, sine = theirs(config)(x, positions.mT[:, None])
    expected = apply_rotary_pos_emb(x, x, cosine, sine)[0]
    ours = Rotary.from_config(config)
    assert isinstance(ours, MultimodalRotary)
    bound = 11 * 4 * 2**-24 * float(x.abs().max())  # float32 angles of at most 11 on their side
    torch.testing.assert_close(ours.turn(x, positions), expected, rtol=0.0, atol=bound)


def test_text_after_an_image_starts_one_after_its_largest_number():
    positions = multimodal_positions(2, (1, 2, 3), 2)
    assert positions.tolist() == [
        [0, 0, 0], [1, 1, 1],
        [2, 2, 2], [2, 2, 3], [2, 2, 4], [2, 3, 2], [2, 3, 3], [2, 3, 4],
        [5, 5, 5], [6, 6, 6],
    ]  # fmt: skip
