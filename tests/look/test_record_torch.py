"""torch's own layers, hand-written models, x-transformers and headwise's layers, recorded."""

import warnings

import pytest
import torch
from torch import nn

from headwise.core import Causal, Padding
from headwise.layers import MultiHeadAttention, Rotary
from headwise.look import InMemory, record
from tests.look.models import Split, Stack, by_einsum, by_hand, dense, fused
from tests.look.plainly import Text
from tests.look.recorded import check, recorded

KEEP = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 1]]).bool()


def projected(attention, query, key):
    """The queries and keys of an nn.MultiheadAttention, by its own weights."""
    width, heads = attention.embed_dim, attention.num_heads
    weight, bias = attention.in_proj_weight.double(), attention.in_proj_bias.double()
    q = query.double() @ weight[:width].T + bias[:width]
    k = key.double() @ weight[width : 2 * width].T + bias[width : 2 * width]
    return (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k))


def probabilities(attention, query, key, visible=None):
    q, k = projected(attention, query, key)
    return dense(q, k, q.shape[-1] ** -0.5, visible)


def texts(p, queries, keys, place=0):
    """Without padding: ``queries`` and ``keys`` say which tokens of each row are real."""
    return [Text(one[:, q][:, :, k], place=place) for one, q, k in zip(p, queries, keys, strict=True)]


@torch.no_grad()
def inputs_of(model, run):
    """What each nn.MultiheadAttention was called with, in order: its own query, key, value."""
    found = []
    handles = [
        module.register_forward_pre_hook(lambda module, args: found.append((module, args)))
        for module in model.modules()
        if isinstance(module, nn.MultiheadAttention)
    ]
    run()
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@torch.no_grad()
def test_an_encoder_on_both_paths(training, padded):
    layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, num_layers=2).train(training)
    x = torch.randn(3, 5, 8)
    hidden = {"src_key_padding_mask": ~KEEP} if padded else {}
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        plain = model(x, **hidden)
        seen = inputs_of(model, lambda: model(x, **hidden))
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    with record(model) as recording:
        watched = model(x, **hidden)
    assert torch.equal(plain, watched)
    assert recording.coverage.fast_path_off is not training
    assert recording.coverage.complete
    assert recording.names == ["layers.0.self_attn", "layers.1.self_attn"]
    keep = KEEP if padded else torch.ones(3, 5).bool()
    for layer, (attention, (query, *_)) in zip(recording.layers.values(), seen, strict=True):
        p = probabilities(attention, query, query, keep[:, None, None])
        check(layer, texts(p, keep, keep))


@pytest.mark.parametrize("memory_length", [5, 4])  # as long as the target, and not
@torch.no_grad()
def test_a_decoder_whose_memory_has_padding(memory_length):
    layer = nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True)
    model = nn.TransformerDecoder(layer, num_layers=2).train()
    x, memory = torch.randn(3, 5, 8), torch.randn(3, memory_length, 8)
    keep = KEEP[:, :memory_length]
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    given = {"tgt_mask": causal, "memory_key_padding_mask": ~keep}
    recording = recorded(model, x, memory, **given)
    seen = inputs_of(model, lambda: model(x, memory, **given))
    everything = torch.ones(3, 5).bool()
    for layer, (attention, (query, key, _)) in zip(recording.layers.values(), seen, strict=True):
        if "multihead" in layer.name:
            p = probabilities(attention, query, key, keep[:, None, None])
            check(layer, texts(p, everything, keep, place=None))
        else:
            p = probabilities(attention, query, key, torch.ones(5, 5).bool().tril())
            check(layer, texts(p, everything, everything))
    assert recording.documents == 3


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_multihead_attention(need_weights, batch_first):
    attention = nn.MultiheadAttention(8, num_heads=2, batch_first=batch_first)
    x = torch.randn(3, 5, 8)
    given = x if batch_first else x.transpose(0, 1)
    options = {"key_padding_mask": ~KEEP, "need_weights": need_weights}
    recording = recorded(attention, given, given, given, **options)
    with torch.no_grad():
        p = probabilities(attention, x, x, KEEP[:, None, None])
    check(recording.layers[""], texts(p, KEEP, KEEP))


def test_keys_that_are_no_tokens_have_no_place():
    attention = nn.MultiheadAttention(8, num_heads=2, add_bias_kv=True, add_zero_attn=True, batch_first=True)
    x = torch.randn(1, 5, 8)
    recording = recorded(attention, x, x, x)
    assert recording.mean("distance").isnan().all()
    assert recording.documents == 1
    assert recording.coverage.largest_difference < 1e-6


@pytest.mark.parametrize("attend", [fused, by_hand, by_einsum])
def test_hand_written(attend):
    model, x = Stack(attend), torch.randn(2, 6, 8)
    recording = recorded(model, x)
    assert recording.names == ["first", "second"]
    assert recording.coverage.complete
    visible = None if attend is by_einsum else torch.ones(6, 6).bool().tril()
    with torch.no_grad():
        for layer, given in zip(recording.layers.values(), (x, x + model.first(x)), strict=True):
            qkv = model.get_submodule(layer.name).qkv(given).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
            p = dense(qkv[0], qkv[1], 0.5, visible)
            check(layer, [Text(one) for one in p])


@pytest.mark.parametrize("number", [-10_000.0, torch.finfo(torch.float32).min, -torch.inf])
def test_padding_by_a_number_that_is_added(number):
    added = torch.where(KEEP, 0.0, number)[:, None, None]
    model = Split(lambda q, k, v: (q @ k.mT * 0.5 + added).softmax(-1) @ v)
    x = torch.randn(3, 5, 8)
    recording = recorded(model, x)
    with torch.no_grad():
        q, k, _ = model.qkv(x).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
    check(recording.layers[""], texts(dense(q, k, 0.5, KEEP[:, None, None]), KEEP, KEEP))


def test_scores_without_their_largest():
    # to take the largest score off each row changes no probability, and no largest score that is recorded
    def attend(q, k, v):
        scores = q @ k.transpose(-2, -1) * 0.5
        return (scores - scores.amax(-1, keepdim=True)).softmax(-1) @ v

    x = torch.randn(2, 6, 8)
    torch.manual_seed(3)
    taken = recorded(Stack(attend), x)
    torch.manual_seed(3)
    plain = recorded(Stack(lambda q, k, v: (q @ k.transpose(-2, -1) * 0.5).softmax(-1) @ v), x)
    for one, other in zip(taken.layers.values(), plain.layers.values(), strict=True):
        torch.testing.assert_close(one.sums.largest_score, other.sums.largest_score)
        torch.testing.assert_close(one.sums.total, other.sums.total, equal_nan=True)


@pytest.mark.parametrize("flash", [True, False])
def test_x_transformers(flash):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it scripts a function when it is imported
        from x_transformers import Decoder, Encoder, TransformerWrapper
    parts = {"dim": 16, "depth": 2, "heads": 2, "attn_dim_head": 8, "attn_flash": flash}
    tokens = torch.randint(0, 20, (2, 7), generator=torch.Generator().manual_seed(0))
    for kind in (Decoder, Encoder):
        model = TransformerWrapper(num_tokens=20, max_seq_len=16, attn_layers=kind(**parts)).eval()
        recording = recorded(model, tokens)
        assert recording.coverage.complete, recording.coverage
        assert recording.coverage.largest_difference < 1e-5
        assert len(recording.layers) == 2
        with torch.no_grad():
            _, shown = TransformerWrapper.forward(slow(model), tokens, return_attn=True)
        for layer, p in zip(recording.layers.values(), shown, strict=True):
            check(layer, [Text(one) for one in p.double()])


def slow(model):
    """The same model with the matrices built."""
    for module in model.modules():
        if hasattr(module, "flash"):
            module.flash = False
    return model


def test_headwise_layers():
    layer = MultiHeadAttention(8, heads=4, kv_heads=2, mask=Causal(), position=Rotary())
    x = torch.randn(3, 5, 8)
    recording = recorded(layer, x, mask=Padding(KEEP))
    with torch.no_grad():
        p = layer.with_weights(x, mask=Padding(KEEP))[1].dense().double()
    assert (recording.layers[""].heads, recording.layers[""].kv_heads) == (4, 2)
    check(recording.layers[""], texts(p, KEEP, KEEP))
    cross = MultiHeadAttention(8, heads=2)
    memory = torch.randn(3, 5, 8)
    recording = recorded(cross, x, memory, mask=Padding(KEEP))
    with torch.no_grad():
        p = cross.with_weights(x, memory, mask=Padding(KEEP))[1].dense().double()
    check(recording.layers[""], texts(p, torch.ones(3, 5).bool(), KEEP, place=None))


def test_a_row_of_padding_alone_is_no_text():
    keep = torch.tensor([[1, 1, 0], [0, 0, 0], [0, 1, 1]]).bool()
    x = torch.randn(3, 3, 8)
    attention = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    for model, given, options in (
        (attention, (x, x, x), {"key_padding_mask": ~keep}),
        (MultiHeadAttention(8, heads=2), (x,), {"mask": Padding(keep)}),
        (MultiHeadAttention(8, heads=2, mask=Causal()), (x,), {"mask": Padding(keep)}),
    ):
        recording = recorded(model, *given, keep=InMemory(), **options)
        assert recording.documents == 2
        assert recording.layers[""].sums.rows[0].tolist() == [4.0, 4.0]
        assert [kept.document for kept in recording.kept] == [0, 1]
        assert torch.equal(recording.map(0, document=1).q, recording.kept[1].tensors["q"])


@pytest.mark.parametrize("how", ["wrapped", "original", "in place"])
@torch.no_grad()
def test_compiled(how):
    torch._dynamo.reset()
    model, x = Stack(fused), torch.randn(2, 6, 8)
    with record(model) as plain:
        model(x)
    options = {"backend": "eager", "fullgraph": True}
    if how == "in place":
        model.compile(**options)
    run = model if how == "in place" else torch.compile(model, **options)
    want = run(x)
    with record(run if how == "wrapped" else model) as recording:
        assert torch.equal(run(x), want)
    assert recording.coverage.complete
    for layer, other in zip(recording.layers.values(), plain.layers.values(), strict=True):
        # compiled code may round its projections otherwise
        torch.testing.assert_close(layer.sums.total, other.sums.total, rtol=1e-5, atol=1e-6, equal_nan=True)
        assert layer.documents == 2
