"""`Rotary.from_config` of dictionaries, as they lie in config.json, old and new; transformers is not needed.

Faults elsewhere, with their numbers in the survey, and the test that would have caught each:

    10, 18, 30, 34  scaling, share or base of an older file lost  test_dictionaries
    L3              two encodings share the first one's base      test_two_bases_stay_apart
"""

import subprocess
import sys

import pytest

from headwise.core import HeadwiseError
from headwise.layers import Llama3, LongRoPE, MultimodalRotary, PositionInterpolation, Rotary, YaRN

SIZES = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 8192}


DICTIONARIES = {
    "Llama 2, base beside": ({**SIZES, "rope_theta": 1e4, "rope_scaling": None}, Rotary(1e4)),
    "linear, by its old name": (
        {**SIZES, "rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0}},
        Rotary(1e4, scaling=PositionInterpolation(2.0)),
    ),
    "Llama 3.1": (
        {
            **SIZES, "rope_theta": 5e5, "max_position_embeddings": 131072,
            "rope_scaling": {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        },
        Rotary(5e5, scaling=Llama3(8.0, 8192)),
    ),
    "Phi-3, the trained length beside": (
        {
            **SIZES, "rope_theta": 1e4, "original_max_position_embeddings": 2048,
            "rope_scaling": {
                "type": "su", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8,
                "original_max_position_embeddings": 4096,
            },
        },
        Rotary(1e4, scaling=LongRoPE([1.0] * 8, [2.0] * 8, 2048, 4.0), length="positions"),
    ),
    "Phi, a share of the head": (
        {**SIZES, "rope_theta": 1e4, "partial_rotary_factor": 0.5}, Rotary(1e4, dims=8),
    ),
    "GPT-NeoX": ({**SIZES, "rotary_emb_base": 1e4, "rotary_pct": 0.25}, Rotary(1e4, dims=4)),
    "Qwen, the trained length implied": (
        {**SIZES, "rope_parameters": {"rope_theta": 1e6, "rope_type": "yarn", "factor": 2.0}},
        Rotary(1e6, scaling=YaRN(2.0, 8192)),
    ),
    "DeepSeek, pairs of neighbours": (
        {**SIZES, "rope_theta": 1e4, "rope_interleave": True}, Rotary(1e4, pairs="neighbours"),
    ),
    "Gemma 3, an older one": (
        {
            **SIZES, "rope_theta": 1e6, "rope_local_base_freq": 1e4,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
        Rotary(1e6, scaling=PositionInterpolation(8.0)),
    ),
    "Qwen2-VL": (
        {**SIZES, "rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}},
        MultimodalRotary((2, 3, 3), 1e6),
    ),
    "Qwen3-VL": (
        {
            "text_config": {
                **SIZES, "rope_theta": 1e6,
                "rope_scaling": {"type": "default", "mrope_section": [4, 2, 2], "mrope_interleaved": True},
            }
        },
        MultimodalRotary((4, 2, 2), 1e6, arrangement="interleaved"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DICTIONARIES)
def test_dictionaries(name):
    config, expected = DICTIONARIES[name]
    assert repr(Rotary.from_config(config)) == repr(expected)


def test_an_older_gemma_3_gives_windowed_layers_a_base_of_their_own():
    config = DICTIONARIES["Gemma 3, an older one"][0]
    assert repr(Rotary.from_config(config, layer_type="sliding_attention")) == repr(Rotary(1e4))
    modern_bert = {**SIZES, "global_rope_theta": 160000.0, "local_rope_theta": 1e4}
    assert Rotary.from_config(modern_bert, layer_type="full_attention").base == 160000.0
    assert Rotary.from_config(modern_bert, layer_type="sliding_attention").base == 1e4


def test_two_bases_stay_apart():
    one, other = (Rotary.from_config({"rope_theta": base}) for base in (1e4, 1e6))
    one.frequencies(8)
    assert other.frequencies(2)[1] == pytest.approx(1e-3)
    assert one.frequencies(2)[1] == pytest.approx(1e-2)


NUMBER = "must be a number in the configuration"


def scaled(**scaling):
    return {"rope_theta": 1e4, "rope_scaling": scaling}


BROKEN = {
    "unknown type": (scaled(rope_type="spiral"), "rope_type must be one of default, linear"),
    "no base": ({"hidden_size": 64}, f"rope_theta {NUMBER}, got None"),
    "a base in words": ({"rope_theta": "1e4"}, f"rope_theta {NUMBER}, got '1e4'"),
    "no factor": (scaled(type="linear"), f"factor {NUMBER}"),
    "no lists": (scaled(type="longrope"), "short_factor must be a list of numbers"),
    "no length": (scaled(type="yarn", factor=2.0), f"original_max_position_embeddings {NUMBER}"),
    "no width": ({"rope_theta": 1e4, "partial_rotary_factor": 0.5}, f"num_attention_heads {NUMBER}"),
    "an odd share": ({"rope_theta": 1e4, **SIZES, "partial_rotary_factor": 0.2}, "dims must be even, got 3"),
    "axes of an unknown model": (scaled(rope_type="axial"), "model_type must be one whose arrangement"),
    "sections arranged otherwise": (
        {**scaled(mrope_section=[2, 2]), "model_type": "hunyuan_vl_text"},
        "model_type must be one whose arrangement of axes is known, got 'hunyuan_vl_text'",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_missing_is_named(name):
    config, message = BROKEN[name]
    with pytest.raises(HeadwiseError, match=message):
        Rotary.from_config(config)


def test_transformers_is_not_imported():
    script = (
        "import sys; from headwise.layers import Rotary; "
        "Rotary.from_config({'rope_theta': 1e4}); assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
