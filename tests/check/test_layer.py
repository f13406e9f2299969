"""check.layer: kinds of layers, what was assumed, what fails, and what is told but no failure."""

import json

import pytest
import torch
from torch import nn

from headwise import check
from headwise.check.checked import from_dict
from headwise.core import HeadwiseError
from headwise.layers import Integers, MultiHeadAttention
from tests.check.own import Attention, Both, Hides, Ignores, Pairs, Shows, Swaps


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def verdicts(checked):
    return {outcome.name: outcome.verdict for outcome in checked.outcomes}


def failures(checked):
    return [outcome.name for outcome in checked.failures]


WIDTH = 16


def test_plain_integers_drown_the_embeddings_in_bfloat16():
    layer = MultiHeadAttention(WIDTH, 2, position=Integers())
    assert failures(check.layer(layer, only="lifecycle causality")) == ["lifecycle"]


def test_a_layer_of_torch_with_two_masks_of_the_other_polarity():
    checked = check.layer(nn.MultiheadAttention(16, 4, batch_first=True), expect="order-blind bidirectional")
    assert failures(checked) == []
    assert "takes vectors of width 16 (embed_dim)" in checked.assumed
    assert "called as module(x, x, x, need_weights=False)" in checked.assumed
    assert "keep is passed as key_padding_mask, inverted: True hides" in checked.assumed
    assert verdicts(checked)["causality"] == "no"
    assert verdicts(checked)["causality with a causal attn_mask"] == "holds"


def test_sequences_first_if_torch_says_so():
    checked = check.layer(nn.MultiheadAttention(16, 4), only="batch causality")
    assert checked.passed
    assert any("length batch" in words for words in checked.assumed)


def test_an_encoder_layer_of_torch():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    assert failures(check.layer(layer, only="finite batch padding causality")) == []
    assert layer.training  # left as it was


class TestPolarity:
    @pytest.mark.parametrize(
        ("kind", "words"),
        [
            (Shows, "keep is passed as mask: True shows"),
            (Hides, "keep is passed as attention_mask, inverted: True hides"),
            (Pairs, "keep is passed as attn_mask, as [batch 1 1 key], True shows"),
        ],
    )
    def test_is_found_by_trying_and_not_by_name(self, kind, words):
        for ahead in (0, None):
            checked = check.layer(kind(ahead=ahead), only="padding")
            assert words in checked.assumed
            assert failures(checked) == []

    def test_a_mask_that_is_forgotten_fails(self):
        checked = check.layer(Ignores(), only="effect padding")
        assert failures(checked) == ["effect"]
        assert "key_padding_mask changes nothing" in checked.failures[0].report.failing
        assert verdicts(checked)["right padding"] == "not checked"

    def test_a_mask_that_means_neither_is_a_question(self):
        checked = check.layer(Swaps(ahead=None), only="padding")
        report = checked.outcomes[0].report
        assert report.verdict == "not checked"
        assert "what True means in mask" in report.failing
        assert "Pass call=" in report.cause


class TestAnOffByOneCausalMask:
    def test_is_named_with_the_pair_of_places_and_how_far_it_leaks(self):
        checked = check.layer(Attention(ahead=1), expect="causal")
        assert failures(checked) == ["causality"]
        page = " ".join(str(checked).split())
        assert "causality fails: the output at 0 changes by" in page
        assert "with the input at 1, of 2" in page
        assert "Queries see all keys up to their own and 1 after" in page
        with pytest.raises(AssertionError, match="causality fails"):
            checked.raise_if_failed()

    @pytest.mark.parametrize(
        ("options", "expect", "field"),
        [
            ({"ahead": 1}, "causal", "ueries see all keys up to their own and 1 after"),
            ({"back": 5}, "window=4", "ueries see 5 keys"),
            ({"back": 5}, "window=3 causal", "ueries see 5 keys"),
            ({"back": 14}, "window=7", "ueries see 14 keys"),  # more than twelve places show
            ({}, "bidirectional", "ueries see all keys up to their own"),
        ],
    )
    def test_the_page_says_once_what_a_false_claim_already_says(self, options, expect, field):
        checked = check.layer(Attention(**options), expect=expect)
        page = " ".join(str(checked).split())
        assert not checked.passed
        assert page.count(field) == 1
        assert "it is also causal" not in page or expect.startswith("window")

    def test_a_finding_that_no_failure_says_stays(self):
        assert check.layer(Attention(back=5), expect="order-blind").found == ("queries see 5 keys",)
        assert check.layer(Attention(back=5), expect="window=5").found == ("queries see 5 keys",)

    def test_a_leak_on_a_side_path_is_not_explained_by_the_plain_one(self):
        class Leaks(Attention):
            def forward(self, x, need_weights=False):
                self.ahead = None if need_weights else 0
                return super().forward(x)

        checked = check.layer(Leaks(), expect="causal")
        causal = checked.failures[0]
        assert causal.report.failing.startswith("with weights asked: the output at 0")
        assert causal.note == ""
        assert checked.found == ("queries see all keys up to their own",)

    def test_is_no_failure_unless_it_is_claimed(self):
        checked = check.layer(Attention(ahead=1))
        assert checked.passed
        assert verdicts(checked)["causality"] == "no"
        checked.raise_if_failed()


@pytest.mark.parametrize(
    ("expect", "failing"),
    [
        ("causal", []),
        ("bidirectional", ["receptive field"]),
        ("window=5", []),
        ("window=4", ["receptive field"]),
        ("order-blind", ["order-blind"]),
        ("relative", []),  # no positions to shift: a question
    ],
)
def test_a_claim_that_is_false_fails(expect, failing):
    assert (
        failures(check.layer(Attention(back=5), expect=expect, only="causality receptive-field order shift"))
        == failing
    )


def test_a_strength_that_nobody_claimed_is_only_told():
    checked = check.layer(Attention(), expect="window=33", only="causality")
    assert checked.outcomes[0].note == "it is also causal, which was not claimed"
    assert checked.passed


def test_functions_of_queries_keys_and_values():
    checked = check.layer(nn.functional.scaled_dot_product_attention, expect="scaled empty-zeros order-blind")
    assert failures(checked) == []
    assert "called as function(q, k, v), each [batch heads length head_dim]" in checked.assumed
    assert verdicts(checked)["causality with is_causal=True"] == "holds"

    def flash_like(q, k, v, causal=False):  # [batch length heads head_dim], and one place too far
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        scores = q @ k.mT
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(2).bool(), -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2)

    checked = check.layer(flash_like)
    assert "called as function(q, k, v), each [batch length heads head_dim]" in checked.assumed
    assert failures(checked) == ["causality with causal=True"]


def test_a_tuple_and_the_path_with_weights():
    checked = check.layer(Both(), only="paths")
    assert "the first entry of a tuple of 2 is read" in checked.assumed
    assert "with weights asked" in checked.outcomes[0].report.tried


def test_a_call_in_ones_own_words_wins():
    def call(module, x, keep=None, positions=None):
        return module.attend(x, torch.tensor(True) if keep is None else keep[:, None, None, :])

    checked = check.layer(Attention(), call=call, inputs=check.Vectors(32), only="padding shift")
    assert failures(checked) == []
    assert verdicts(checked)["shift"] == "holds"
    assert checked.assumed == ("called as call(module, x, keep, positions)",)


def test_a_cache_of_ones_own():
    def start(module, window=None):
        seen = []

        def step(chunk):
            seen.append(chunk)
            return module(torch.cat(seen[-2:] if window else seen, dim=1))[:, -chunk.shape[1] :]

        return step

    assert failures(check.layer(Attention(), start=start, only="cache")) == []
    forgets = lambda module: start(module, window=2)  # noqa: E731
    assert failures(check.layer(Attention(), start=forgets, only="cache")) == ["cache"]


def test_weights_too_small_for_a_fault_to_show_are_enlarged():
    layer = Attention(ahead=1)
    nn.init.normal_(layer.qkv.weight, std=1e-9)
    nn.init.zeros_(layer.out.weight)
    checked = check.layer(layer, expect="causal", only="causality")
    assert failures(checked) == ["causality"]
    assert any("a copy with larger weights is checked" in words for words in checked.assumed)
    assert not layer.out.weight.any()  # the owner's are left alone


def test_a_change_at_the_first_call_is_seen_though_the_call_is_found_out_by_calling():
    class Settles(Attention):
        """Looks both ways from its first call on that is shorter than twenty places."""

        def forward(self, x):
            if x.shape[1] < 20:
                self.ahead = None
            return super().forward(x)

    checked = check.layer(Settles(), only="history")
    assert failures(checked) == ["history"]
    assert "of 33 changes by" in checked.failures[0].report.failing


def test_what_is_not_finite_or_not_steady_is_one_failure():
    checked = check.layer(lambda x: x / 0.0 - x / 0.0, inputs=check.Vectors(4))
    assert failures(checked) == ["finite"]
    assert len(checked.outcomes) == 2
    checked = check.layer(lambda x: x + torch.rand(x.shape), inputs=check.Vectors(4))
    assert failures(checked) == ["evaluation"]


def test_a_result_is_a_page_and_json_and_comes_back():
    checked = check.layer(Attention(ahead=1), expect="causal", only="causality padding")
    page = str(checked)
    assert all(len(line) <= 80 for line in page.splitlines())
    assert "Not checked:\n  right padding, left padding, pad content: it takes no mask" in page
    plain = json.loads(checked.to_json())
    assert plain["passed"] is False
    assert plain["outcomes"][0]["failed"] is True
    assert from_dict(plain) == checked


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: check.layer(3), "what is checked must be a module or a function, got int"),
        (lambda: check.layer(nn.ReLU()), "whose width can be read from an attribute or a weight, got ReLU"),
        (lambda: check.layer(Attention(), call=lambda m, x: m(x)), "inputs must be given where call= is"),
        (lambda: check.layer(Attention(), expect="quick"), "what is claimed must be of causal"),
        (lambda: check.layer(Attention(), expect="causal bidirectional"), "They exclude each other"),
        (lambda: check.layer(Attention(), expect="window=none"), "window must be a whole number"),
        (lambda: check.layer(Attention(), only="speed"), "a property must be one of"),
        (lambda: check.layer(nn.LSTM(4, 4, 1).flatten_parameters), "got "),
    ],
)
def test_what_cannot_be_checked_is_one_line(call, words):
    with pytest.raises(HeadwiseError) as caught:
        call()
    assert words in str(caught.value)
