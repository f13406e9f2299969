"""check.model: models of tokens, and Hugging Face models from a configuration."""

import pytest
import torch
from torch import nn

from headwise import check
from headwise.check.subjects.small import smaller
from headwise.core import HeadwiseError
from tests.check.own import Tiny


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def failures(checked):
    return [outcome.name for outcome in checked.failures]


def test_a_model_that_gives_all_logits_only_with_targets():
    checked = check.model(Tiny(), expect="causal order-aware")
    assert failures(checked) == []
    assert checked.assumed[:2] == (
        "takes tokens below 11 (the table at tokens)",
        "called as model(x, targets=x)",
    )
    assert "takes at most 20 places" in checked.assumed


def test_a_leak_and_a_wrap_are_found():
    checked = check.model(Tiny(ahead=1, wraps=True), expect="causal", only="causality length")
    assert failures(checked) == ["causality", "length"]
    assert "position 20 is treated like position 0" in checked.failures[1].report.failing


def config(name):
    from transformers import AutoConfig

    return AutoConfig.for_model(name)


def test_a_decoder_with_windows_and_a_cache():
    checked = check.model(config("mistral"), expect="relative")
    assert failures(checked) == []
    by_name = {outcome.name: outcome for outcome in checked.outcomes}
    assert by_name["cache"].verdict == by_name["cache of unequal rows"].verdict == "holds"
    assert "it must be causal, as MistralForCausalLM says" in checked.assumed
    assert checked.found == ("queries see 11 keys",)  # windows of 6, through two layers


def test_an_encoder_is_not_asked_to_be_causal_and_has_no_cache():
    checked = check.model(config("roberta"), only="causality padding cache shift")
    assert failures(checked) == []
    assert [outcome.verdict for outcome in checked.outcomes if outcome.name == "causality"] == ["no"]
    assert not any(outcome.name == "cache" for outcome in checked.outcomes)


def test_an_encoder_and_a_decoder_are_checked_apart_and_together():
    checked = check.model(config("t5"), only="causality padding cache")
    assert failures(checked) == []
    names = {outcome.name for outcome in checked.outcomes}
    assert {"encoder: pad content", "decoder: causality", "decoder: cache", "memory: right padding"} <= names


class Leaky(nn.Module):
    """Adds a little of the next place."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **named):
        output = self.inner(*args, **named)
        return (output[0] + 0.01 * output[0].roll(-1, dims=1), *output[1:])


def test_a_leak_in_one_layer_of_a_hugging_face_model_is_found():
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(smaller(config("llama")))
    model.model.layers[0].self_attn = Leaky(model.model.layers[0].self_attn)
    checked = check.model(model, only="causality cache")
    assert failures(checked) == ["causality", "cache", "cache of unequal rows"]
    assert not model.model.layers[0].self_attn.inner.training or model.training


def test_a_model_that_changes_with_its_first_short_input_is_found():
    """BigBird goes over to full attention for good, see docs/findings.md."""
    checked = check.model(config("big_bird"), only="history")
    assert failures(checked) == ["history"]
    assert "of 33 changes by" in checked.failures[0].report.failing


def test_an_encoder_and_a_decoder_are_made_anew_too():
    checked = check.model(config("t5"), only="lifecycle")
    assert failures(checked) == []
    assert [o.report.tried for o in checked.outcomes] == 2 * ["cast, save, copy"]


@pytest.mark.parametrize("name", ["ministral", "gemma4_text"])
def test_sizes_that_are_left_open_or_differ_from_layer_to_layer(name):
    assert check.model(config(name), only="causality").passed


def test_sizes_shrink_and_everything_else_stays():
    from transformers import AutoConfig

    small = smaller(AutoConfig.for_model("gemma3_text", rms_norm_eps=0.5))
    assert (small.hidden_size, small.num_hidden_layers, small.vocab_size) == (32, 2, 99)
    assert small.layer_types == ["sliding_attention", "full_attention"]
    assert small.rms_norm_eps == 0.5


def test_a_model_of_pictures_is_refused_in_one_line():
    with pytest.raises(HeadwiseError, match="must be one that takes input_ids, got ViTModel"):
        check.model(config("vit"))


def test_a_model_without_an_embedding_asks_for_inputs():
    class OneHot(nn.Module):
        def forward(self, x):
            return nn.functional.one_hot(x, 9).float().cumsum(1)

    with pytest.raises(HeadwiseError, match=r"inputs=Vectors|width can be read"):
        check.model(OneHot())
    assert check.model(OneHot(), inputs=check.Tokens(9), expect="causal").passed
