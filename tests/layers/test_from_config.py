"""`Rotary.from_config` against transformers: frequencies, attention factor and turned vectors.

Every rope type it knows, at the lengths where some of them switch. Its own angles are float32, so the bounds
are its roundings: 2^-24 of a frequency a few times over, and of an angle.

Faults elsewhere, with their numbers in the survey, and the test that would have caught each:

    L18         truncate read beside the layer type's numbers      test_truncate_is_read_for_the_kind_of_layer
    L17, L16    the second long call fails; the length stays       test_against_transformers, call after call
    10, 18, 30  scaling, share or base do not arrive               test_frequencies
"""

import math

import pytest
import torch
from transformers import AutoConfig, Gemma3TextConfig, Gemma4TextConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from headwise.core import HeadwiseError
from headwise.layers import Rotary, YaRN
from headwise.layers.positions.hugging_face import ROPE_TYPES
from headwise.layers.positions.model_types import INTERLEAVED_AXES, PAIRS_OF_NEIGHBOURS

HEAD_DIM, ORIGINAL, LONGEST = 16, 64, 256
LISTS = [1.0 + 0.1 * i for i in range(8)], [2.0 + i for i in range(8)]

# name: rope parameters; the trained length is 64 tokens, the longest 256
CASES = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL},
    "yarn, mscale": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL,
        "mscale": 1.0, "mscale_all_dim": 0.5, "beta_fast": 16, "beta_slow": 2,
    },
    "yarn, other turns": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL,
        "beta_fast": 4, "beta_slow": 2, "truncate": False,
    },
    "yarn, attention factor": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL,
        "attention_factor": 1.5, "truncate": False,
    },
    "yarn, factor of the lengths": {
        "rope_type": "yarn", "factor": None, "original_max_position_embeddings": ORIGINAL,
    },
    "longrope": {
        "rope_type": "longrope", "short_factor": LISTS[0], "long_factor": LISTS[1], "factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
    },
    "longrope, factor of the lengths": {
        "rope_type": "longrope", "short_factor": LISTS[0], "long_factor": LISTS[1],
        "original_max_position_embeddings": ORIGINAL,
    },
    "longrope, attention factor": {
        "rope_type": "longrope", "short_factor": LISTS[0], "long_factor": LISTS[1], "factor": 4.0,
        "attention_factor": 1.25, "original_max_position_embeddings": ORIGINAL,
    },
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": ORIGINAL,
    },
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.3},
    "proportional, slower": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "factor": 2.0},
}  # fmt: skip
PARTIAL = [name for name in CASES if not name.startswith(("longrope", "proportional"))]
every_case = pytest.mark.parametrize("name", CASES)


def config_of(name, **more):
    longest = ORIGINAL if name == "dynamic" else LONGEST
    return LlamaConfig(
        hidden_size=2 * HEAD_DIM,
        num_attention_heads=2,
        max_position_embeddings=longest,
        rope_parameters={"rope_theta": 1e4, **CASES[name], **more},
    )


def theirs_at(config, length):
    """What a model of transformers that never saw another call has for this length."""
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        module = LlamaRotaryEmbedding(config)
        return module.inv_freq, module.attention_scaling
    return ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)


def test_every_rope_type_of_transformers_is_known():
    assert {CASES[name]["rope_type"] for name in CASES} == {"default", *ROPE_INIT_FUNCTIONS}
    assert set(ROPE_INIT_FUNCTIONS) <= set(ROPE_TYPES)


@every_case
@pytest.mark.parametrize("length", [1, 63, 64, 65, 100, 256, 257, 5000])
def test_frequencies(name, length):
    config = config_of(name)
    expected, size = theirs_at(config, length)
    encoding = Rotary.from_config(config)
    pairs = (encoding.dims or HEAD_DIM) // 2
    # a float32 power is right to 2^-22 of itself here, the products around it to 2^-24 each
    torch.testing.assert_close(encoding.frequencies(pairs, length), expected.double(), rtol=2**-20, atol=0.0)
    assert encoding._size == pytest.approx(size, rel=1e-12)


@pytest.mark.parametrize("name", PARTIAL)
@pytest.mark.parametrize("share", [0.5, 0.25])
def test_partial(name, share):
    config = config_of(name, partial_rotary_factor=share)
    encoding = Rotary.from_config(config)
    assert encoding.dims == HEAD_DIM * share
    if name == "default":
        expected = torch.tensor([1e4 ** (-2 * i / encoding.dims) for i in range(encoding.dims // 2)])
    else:
        expected = theirs_at(config, 100)[0]
    torch.testing.assert_close(
        encoding.frequencies(encoding.dims // 2, 100), expected.double(), rtol=2**-20, atol=0.0
    )


@every_case
def test_against_transformers(name):
    """Turned queries and keys, call after call of growing and shrinking length, each as in a fresh model."""
    config, encoding = config_of(name), Rotary.from_config(config_of(name))
    for length in (64, 65, 256, 200, 65, 40):
        q, k = torch.randn(1, 2, 5, HEAD_DIM), torch.randn(1, 1, 5, HEAD_DIM)
        at = torch.tensor([0, 1, length // 2, length - 2, length - 1])
        cosine, sine = LlamaRotaryEmbedding(config)(q, at[None])
        expected = apply_rotary_pos_emb(q, k, cosine, sine)
        for ours, theirs, x in zip(encoding.rotate(q, k, at, at), expected, (q, k), strict=True):
            # their angle is off by 2^-20 of itself, twice that in a sum of two
            bound = 2 * length * 2**-20 * encoding._size * float(x.abs().max())
            torch.testing.assert_close(ours, theirs, rtol=0.0, atol=bound)


KINDS = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "full_attention": {
        "rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0, "truncate": False,
        "original_max_position_embeddings": ORIGINAL,
    },
}  # fmt: skip


def test_each_kind_of_layer():
    config = Gemma3TextConfig(rope_parameters=KINDS, head_dim=HEAD_DIM)
    local = Rotary.from_config(config, layer_type="sliding_attention")
    overall = Rotary.from_config(config, layer_type="full_attention")
    assert (local.base, local.scaling) == (1e4, None)
    assert (overall.base, overall.scaling) == (1e6, YaRN(4.0, ORIGINAL, truncate=False))
    with pytest.raises(HeadwiseError, match="layer_type must be one of sliding_attention, full_attention"):
        Rotary.from_config(config)
    with pytest.raises(HeadwiseError, match=r"layer_type must be one of .*, got 'windowed'"):
        Rotary.from_config(config, layer_type="windowed")


def test_truncate_is_read_for_the_kind_of_layer():
    """transformers reads it beside the kinds, where it is not, and so rounds these bounds; we do not."""
    frequencies = Rotary.from_config({"rope_parameters": KINDS}, layer_type="full_attention").frequencies(8)
    plain = Rotary(1e6).frequencies(8)
    low, high = YaRN(4.0, ORIGINAL, truncate=False).bounds(plain)
    assert low != math.floor(low) or high != math.ceil(high)
    assert torch.equal(frequencies, YaRN(4.0, ORIGINAL, truncate=False)(plain, None))
    assert not torch.equal(frequencies, YaRN(4.0, ORIGINAL)(plain, None))


def test_gemma_4_by_its_own_defaults():
    config = Gemma4TextConfig()
    overall = Rotary.from_config(config, layer_type="full_attention")
    theirs, _ = ROPE_INIT_FUNCTIONS["proportional"](config, "cpu", layer_type="full_attention")
    torch.testing.assert_close(overall.frequencies(len(theirs)), theirs.double(), rtol=2**-20, atol=0.0)
    assert (theirs == 0).any()
    assert Rotary.from_config(config, layer_type="sliding_attention").scaling is None


def test_a_layer_without_rotary_is_said_so():
    kinds = {**KINDS, "full_attention": None}
    with pytest.raises(HeadwiseError, match="That kind of layer has no rotary encoding"):
        Rotary.from_config({"rope_parameters": kinds}, layer_type="full_attention")


def test_a_length_makes_keys_cacheable():
    config = config_of("dynamic")
    assert not Rotary.from_config(config).cacheable
    fixed = Rotary.from_config(config, length=256)
    assert fixed.cacheable
    assert torch.equal(fixed.frequencies(8), Rotary.from_config(config).frequencies(8, 256))
    assert Rotary.from_config(config_of("linear"), length=256).length is None


def test_pairs_can_be_said():
    assert Rotary.from_config(config_of("default"), pairs="neighbours").pairs == "neighbours"


@pytest.mark.parametrize(
    ("model_type", "neighbours"), [("llama", False), ("cohere", True), ("glm", True), ("gptj", True)]
)
def test_the_layout_of_a_model_type(model_type, neighbours):
    """Its own turning function, asked where dimension 0 goes."""
    config = AutoConfig.for_model(model_type)
    code = __import__(f"transformers.models.{model_type}.modeling_{model_type}", fromlist=["x"])
    turn = code.rotate_every_two if model_type == "gptj" else code.rotate_half
    assert bool(turn(torch.eye(8)[None, None, :1])[..., 1].all()) == neighbours
    assert Rotary.from_config(config).pairs == ("neighbours" if neighbours else "halves")


def test_model_types_are_those_of_transformers():
    from transformers import CONFIG_MAPPING

    known = set(CONFIG_MAPPING) | {
        "blt_local_encoder",
        "blt_local_decoder",
        "blt_global_transformer",
        "blt_patcher",
    }
    assert known >= PAIRS_OF_NEIGHBOURS
    assert known >= INTERLEAVED_AXES
