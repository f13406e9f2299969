"""Heads removed from models of transformers: the same as zero columns in the output projection."""

import copy

import pytest
import torch
import transformers

from headwise.core import AttentionMap
from headwise.look import Mean, ablate, watch
from headwise.models import open_text_model
from tests.look.test_hugging_face import EAGER, FUSED, inputs, model

PROJECTIONS = {
    "Llama": "layers.{}.self_attn.o_proj",
    "Bert": "encoder.layer.{}.attention.output.dense",
    "GPT2": "h.{}.attn.c_proj",
    "MPNet": "encoder.layer.{}.attention.attn.o",
    "Bloom": "h.{}.self_attention.dense",
    "Falcon": "h.{}.self_attention.dense",
    "GptOss": "layers.{}.self_attn.o_proj",
    "T5": "encoder.block.{}.layer.0.SelfAttention.o",
    "Mistral": "layers.{}.self_attn.o_proj",
    "Bart": "encoder.layers.{}.self_attn.out_proj",
}


@torch.no_grad()
def without_columns(network, path, head, width):
    """A copy of the model whose output projection reads nothing of a head."""
    network = copy.deepcopy(network)
    layer = network.get_submodule(path)
    weight = layer.weight.T if type(layer).__name__ == "Conv1D" else layer.weight
    weight[:, head * width : (head + 1) * width] = 0.0
    return network


def width_of(network):
    config = network.config
    return (
        getattr(config, "d_kv", None) or getattr(config, "head_dim", None) or 24 // config.num_attention_heads
    )


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize(
    ("name", "attention"), [*((name, "sdpa") for name in FUSED), *((name, "eager") for name in EAGER)]
)
def test_a_head_at_zero_is_zero_columns_of_the_projection(name, attention, side):
    network, given = model(name, attention), inputs(name, side)
    heads = network.config.num_attention_heads
    want = without_columns(network, PROJECTIONS[name].format(1), heads - 1, width_of(network))
    with torch.no_grad():
        plain = network(**given)[0]
        with ablate(network, (1, heads - 1)) as coverage:
            got = network(**given)[0]
        assert torch.equal(got, want(**given)[0])
        assert torch.equal(network(**given)[0], plain)
    assert not torch.equal(got, plain)
    assert (coverage.changed, coverage.complete) == (1, True)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("new", [1, 3])
def test_one_new_token_on_a_cache(padded, new):
    network = model("Llama", "sdpa")
    other = without_columns(network, PROJECTIONS["Llama"].format(0), 4, width_of(network))
    tokens = inputs("Llama", None)["input_ids"]
    keep = inputs("Llama", "left")["attention_mask"] if padded else torch.ones(2, 7, dtype=torch.long)

    @torch.no_grad()
    def last(network):
        cache = transformers.DynamicCache(config=network.config)
        network(tokens[:, :-new], attention_mask=keep[:, :-new], cache=cache)
        return network(tokens[:, -new:], attention_mask=keep, cache=cache)[0]

    want, plain = last(other), last(network)
    with ablate(network, "0.4") as coverage:
        got = last(network)
    assert torch.equal(got, want)
    assert not torch.equal(got, plain)
    assert coverage.changed == 2


def test_whisper_self_and_cross_attention():
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=30, d_model=24, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
        num_mel_bins=8, decoder_attention_heads=4, encoder_ffn_dim=16, decoder_ffn_dim=16,
        max_source_positions=10, decoder_start_token_id=1, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        max_target_positions=16,
    )  # fmt: skip
    network = transformers.WhisperModel(config).eval()
    given = {"input_features": torch.randn(1, 8, 20), "decoder_input_ids": torch.tensor([[1, 5, 6]])}
    names = {"0.1": "encoder.layers.0.self_attn", "4.1": "decoder.layers.1.encoder_attn",
             "3.1": "decoder.layers.1.self_attn"}  # fmt: skip
    with torch.no_grad():
        for head, path in names.items():
            want = without_columns(network, f"{path}.out_proj", 1, 6)(**given)[0]
            for spelled in (head, f"{path}:1"):
                with ablate(network, spelled):
                    assert torch.equal(network(**given)[0], want)


def test_padding_is_no_part_of_the_mean():
    network, given, calls = model("Bert", "sdpa"), inputs("Bert", "right"), []
    with torch.no_grad(), watch(network, calls.append), ablate(network, "0.2", to=Mean()):
        network(**given)
    keep = given["attention_mask"].bool()
    want = calls[0].output[:, 2][keep].mean(0)
    inner = []
    with torch.no_grad(), ablate(network, "0.2", to=Mean()), watch(network, inner.append):
        network(**given)
    got = inner[0].output[:, 2]
    torch.testing.assert_close(
        got, want.expand_as(got), atol=1e-6, rtol=0
    )  # float32: a mean of 12 small numbers


@pytest.fixture(scope="module")
def smollm2():
    return open_text_model("smollm2").network


def repeated(rows):
    """Random tokens, each row twice; a vocabulary starts with special tokens and bytes, so not those."""
    once = torch.randint(1000, 40_000, (8, 50), generator=torch.Generator().manual_seed(0))[:rows]
    return torch.cat((once, once), dim=1)


@torch.no_grad()
def losses(network, tokens):
    """The mean loss of what follows the first token, in the first copy and in the second."""
    log_p = network(tokens).logits[:, :-1].log_softmax(-1)
    loss = -log_p.gather(-1, tokens[:, 1:, None])[..., 0]
    return float(loss[:, :49].mean()), float(loss[:, 50:].mean())


def test_the_induction_heads_of_smollm2_carry_the_repetition(smollm2):
    tokens, scores = repeated(8), []

    def score(call):
        """Attention from each token of the second copy to the one after its first occurrence."""
        p, queries = AttentionMap(call.q, call.k, **call.score_inputs()), torch.arange(50, 100)
        scores.append(p.entries(queries, queries - 49).mean((0, 2)))

    with watch(smollm2, score):
        first, second = losses(smollm2, tokens)
    assert (round(first, 1), round(second, 1)) == (14.1, 2.7)
    flat = torch.stack(scores).flatten()
    ranked = [(int(at) // 9, int(at) % 9) for at in flat.argsort(descending=True)]
    best = {"18.6": 0.914, "17.3": 0.780, "17.4": 0.730, "18.7": 0.620, "17.5": 0.613}
    assert [f"{layer}.{head}" for layer, head in ranked[:5]] == list(best)
    torch.testing.assert_close(
        flat.sort(descending=True).values[:5], torch.tensor([*best.values()]), atol=2e-3, rtol=0
    )
    with ablate(smollm2, ranked[:10]) as coverage:
        first, second = losses(smollm2, tokens)
    assert (round(first, 1), round(second, 1)) == (14.0, 12.6)
    assert (coverage.calls, coverage.changed) == (30, 5)
    rest = sorted(ranked[10:])
    # other draws do more, as one with the previous-token head, on which the induction heads rest
    for seed in range(3):
        others = [rest[at] for at in torch.randperm(260, generator=torch.Generator().manual_seed(seed))[:10]]
        with ablate(smollm2, others):
            assert losses(smollm2, tokens[4:])[1] < 4
    with ablate(smollm2, "16.0"):
        assert losses(smollm2, tokens[:2])[1] > 9
