"""Small random models of transformers: every call seen, with the eager model's own probabilities."""

import copy

import pytest
import torch
import transformers

from headwise.look import watch
from tests.look.models import dense, seen

SMALL = {"vocab_size": 30, "hidden_size": 24, "intermediate_size": 16, "num_hidden_layers": 2}
HALF = {"num_attention_heads": 6, "num_key_value_heads": 2}
CLEAN = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
# float32 through two layers of another kernel: the bound of the task
CLOSE = 1e-5

CONFIGS = {
    "Llama": transformers.LlamaConfig(**SMALL, **HALF),
    "Bert": transformers.BertConfig(**SMALL, num_attention_heads=4),
    "GPT2": transformers.GPT2Config(vocab_size=30, n_embd=24, n_layer=2, n_head=4, n_positions=32, **CLEAN),
    "MPNet": transformers.MPNetConfig(**SMALL, num_attention_heads=4, pad_token_id=1),
    "Bloom": transformers.BloomConfig(vocab_size=30, hidden_size=24, n_layer=2, n_head=4),
    "Falcon": transformers.FalconConfig(**SMALL, num_attention_heads=4, alibi=True),
    "GptOss": transformers.GptOssConfig(
        **SMALL, num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_local_experts=2,
        num_experts_per_tok=1, layer_types=["full_attention"] * 2,
    ),
    "T5": transformers.T5Config(
        vocab_size=30, d_model=24, d_kv=6, d_ff=16, num_layers=2, num_heads=4, decoder_start_token_id=0
    ),
    "Mistral": transformers.MistralConfig(**SMALL, **HALF, sliding_window=4),
    "Bart": transformers.BartConfig(
        vocab_size=30, d_model=24, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
        encoder_attention_heads=4, decoder_attention_heads=4, max_position_embeddings=32, pad_token_id=1,
        bos_token_id=0, eos_token_id=2,
    ),
}  # fmt: skip
FUSED = ("Llama", "Bert", "GPT2", "T5", "Mistral", "Bart")
EAGER = tuple(CONFIGS)


def model(name, attention):
    torch.manual_seed(0)
    config = copy.deepcopy(CONFIGS[name])
    config._attn_implementation = attention
    made = getattr(transformers, f"{name}Model")(config).eval()
    with torch.no_grad():  # so that heads differ
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4.0)
    return made


def inputs(name, side):
    tokens = torch.randint(2, 30, (2, 7), generator=torch.Generator().manual_seed(1))
    given = {"input_ids": tokens}
    if side is not None:
        keep = torch.ones(2, 7, dtype=torch.long)
        keep[1, : 2 if side == "left" else 7] = 0 if side == "left" else 1
        keep[1, 5:] = 0 if side == "right" else 1
        given["attention_mask"] = keep
    if name in ("T5", "Bart"):
        given["decoder_input_ids"] = tokens[:, :4]
    return given


def attentions(output):
    if getattr(output, "encoder_attentions", None) is None:
        return list(output.attentions)
    decoder = [
        x for pair in zip(output.decoder_attentions, output.cross_attentions, strict=True) for x in pair
    ]
    return [*output.encoder_attentions, *decoder]


@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize(
    ("name", "attention"), [*((name, "sdpa") for name in FUSED), *((name, "eager") for name in EAGER)]
)
def test_calls_rebuild_the_probabilities_of_the_eager_model(name, attention, side):
    given = inputs(name, side)
    calls, coverage = seen(model(name, attention), **given)
    assert coverage.complete, coverage
    assert coverage.seen == {"fused" if attention == "sdpa" else "softmax": len(calls)}
    with torch.no_grad():
        wanted = attentions(model(name, "eager")(**given, output_attentions=True))
    assert len(calls) == len(wanted)
    for call, want in zip(calls, wanted, strict=True):
        got = call.weights()
        assert got.shape == want.shape
        # an eager model gives a row that sees nothing uniform weights, the kernel zeros: nobody reads it
        rows = got.any(-1)
        torch.testing.assert_close(got[rows], want[rows], atol=CLOSE, rtol=0)
    assert coverage.largest_difference <= CLOSE


def test_falcons_mask_is_its_penalty_and_its_causality():
    # compared with the formula, as the library's own eager Falcon adds the penalty twice
    calls, coverage = seen(model("Falcon", "sdpa"), **inputs("Falcon", None))
    slopes, keys = torch.tensor([0.25, 0.0625, 0.015625, 0.00390625]), torch.arange(7.0)
    penalty = (slopes[:, None, None] * keys / 6**0.5).expand(2, 4, 7, 7)
    visible = torch.ones(7, 7).bool().tril()
    for call in calls:
        assert (call.heads, call.kv_heads) == (4, 1)
        want = dense(call.q, call.k, 6**-0.5, visible, penalty)
        torch.testing.assert_close(call.weights().double(), want, atol=CLOSE, rtol=0)
    assert coverage.complete
    assert coverage.largest_difference <= CLOSE


@pytest.mark.parametrize("new", [1, 3])
@pytest.mark.parametrize("padded", [True, False])
def test_one_new_token_on_a_cache_is_six_heads_with_one_query(padded, new):
    fast, eager = model("Llama", "sdpa"), model("Llama", "eager")
    tokens = inputs("Llama", None)["input_ids"]
    keep = inputs("Llama", "left")["attention_mask"] if padded else torch.ones(2, 7, dtype=torch.long)
    steps = (tokens[:, :-new], tokens[:, -new:])
    caches = [transformers.DynamicCache(config=fast.config) for _ in range(2)]
    with torch.no_grad():
        for cache, network in zip(caches, (fast, eager), strict=True):
            network(steps[0], attention_mask=keep[:, :-new], cache=cache)
        calls = []
        with watch(fast, calls.append, verify=True) as coverage:
            fast(steps[1], attention_mask=keep, cache=caches[0])
        options = {"cache": caches[1], "output_attentions": True}
        wanted = eager(steps[1], attention_mask=keep, **options).attentions
    assert [(call.heads, call.q.shape[2], call.k.shape[2]) for call in calls] == [(6, new, 7)] * 2
    for call, want in zip(calls, wanted, strict=True):
        torch.testing.assert_close(call.weights(), want, atol=CLOSE, rtol=0)
    assert coverage.largest_difference <= CLOSE


def test_three_heads_with_three_queries_are_not_mistaken_for_a_folded_query():
    # groups of 3 and three new tokens: the shapes that a folded query has
    calls, _ = seen(model("Llama", "sdpa"), input_ids=torch.tensor([[5, 6, 7]]))
    assert [(call.heads, call.q.shape[2]) for call in calls] == [(6, 3)] * 2


def test_sinks_are_seen_and_the_router_is_not():
    calls, coverage = seen(model("GptOss", "eager"), **inputs("GptOss", None))
    assert [call.sinks.shape for call in calls] == [(2, 4, 7, 1)] * 2
    assert (coverage.calls, coverage.unseen) == (2, {})


def test_the_names_are_those_of_the_model():
    calls, _ = seen(model("T5", "sdpa"), **inputs("T5", None))
    network = dict(model("T5", "sdpa").named_modules())
    assert all(type(network[call.module]).__name__ == "T5Attention" for call in calls)
    cross = [call for call in calls if "EncDecAttention" in call.module]
    assert [(call.q.shape[2], call.k.shape[2]) for call in cross] == [(4, 7), (4, 7)]


def test_mamba_has_no_attention_and_that_is_said():
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=30, hidden_size=16, state_size=4, num_hidden_layers=1)
    calls, coverage = seen(transformers.MambaModel(config).eval(), torch.tensor([[3, 4, 5]]))
    assert calls == []
    assert str(coverage).startswith("MambaModel: no attention at all: 0 calls")
