"""Shaw, Transformer-XL, DeBERTa, CoPE and forget gates against their formulas, and what they must not do.

Entries of the survey of faults in other libraries, and the test that would have caught each:

36, 43, L14  counts from the wrong place, or from new tokens alone, once keys are cached:
             test_new_queries_over_all_keys_are_rows_of_the_whole
44           CoPE, hidden keys open gates: test_a_layer_is_its_formula, test_hidden_keys_do_not_count
L27          shifted by rows, wrong above the diagonal and for unequal lengths:
             test_cross_attention_is_its_formula
4.2          Shaw without its value term, a wrong sign or scale; DeBERTa's third term by the wrong distance:
             test_a_layer_is_its_formula, and against other code in test_content_peers.py
"""

import pytest
import torch
from torch.autograd import gradcheck

from headwise.core import Causal, Explicit, Padding, SlidingWindow
from headwise.layers import Chain, MultiHeadAttention
from headwise.layers.positions import deberta
from tests.core.cases import make_mask
from tests.core.paths import force_small_blocks
from tests.core.test_memory import BUDGET, LargestTensor, limit_blocks
from tests.core.test_memory import LENGTH as MEMORY_LENGTH
from tests.layers.content import FORMS, LENGTH, MODEL_DIM, ORDERS, expected, form, layer_of, lists, tokens
from tests.layers.encodings import bias_of, words

# float64: sums of at most 12 terms of size about 1, four products deep, and exponentials of them
EXACT = {"rtol": 0.0, "atol": 1e-12}
MASK_NAMES = [
    None,
    "causal",
    "window 2 + 2",
    "prefix 2",
    "padding",
    "explicit",
    "documents & causal",
    "causal & padding",
]
forms = pytest.mark.parametrize("name", FORMS)


@pytest.mark.parametrize("mask_name", MASK_NAMES)
@forms
def test_a_layer_is_its_formula(monkeypatch, name, mask_name):
    """In one block and in many, with every mask; rows that see nothing give the layer's bias."""
    layer, x, at = layer_of(name), tokens(), ORDERS["from 0"]
    mask, visible = (None, torch.ones(2, LENGTH, LENGTH)) if mask_name is None else make_mask(mask_name, 6, 6)
    wanted = expected(layer, x, x, lists(at), lists(at), visible)
    torch.testing.assert_close(layer(x, mask=mask), wanted, **EXACT)
    force_small_blocks(monkeypatch)
    torch.testing.assert_close(layer(x, mask=mask), wanted, **EXACT)


@pytest.mark.parametrize("order", ORDERS)
@forms
def test_at_any_positions(monkeypatch, name, order):
    """Far away, with gaps and with equals, in any order, and another for each row."""
    force_small_blocks(monkeypatch)
    layer, x, at = layer_of(name), tokens(), ORDERS[order]
    mask, visible = make_mask("window 3", LENGTH, LENGTH)
    wanted = expected(layer, x, x, lists(at), lists(at), visible)
    # an angle near 1,015 is right to 1015 * 2^-53 = 1e-13, and a few dozen of them are added
    torch.testing.assert_close(layer(x, mask=mask, positions=at), wanted, rtol=0.0, atol=1e-11)


@forms
def test_cross_attention_is_its_formula(name):
    """Fewer queries than keys and no mask: keys on both sides of every query."""
    layer, x, memory = layer_of(name), tokens(3), tokens(LENGTH)
    at_q, at_k = torch.tensor([4, 0, 2]), torch.arange(LENGTH)
    wanted = expected(layer, x, memory, lists(at_q), lists(at_k), torch.ones(2, 3, LENGTH))
    output = layer(x, memory, positions=at_q, memory_positions=at_k)
    torch.testing.assert_close(output, wanted, **EXACT)


@pytest.mark.parametrize("order", ["from 0", "rows"])
@pytest.mark.parametrize("mask", [Causal(), SlidingWindow(3)])
@forms
def test_new_queries_over_all_keys_are_rows_of_the_whole(name, mask, order):
    """What a cached step asks: the last queries, all keys, and features that were made as tokens came."""
    encoding, x, at = form(name), tokens(), ORDERS[order]
    q, k = words(2, 4, LENGTH, 3), words(2, 2, LENGTH, 3)
    visible = mask.visible(torch.arange(LENGTH), torch.arange(LENGTH))[None, None]
    whole = bias_of(encoding, q, k, at, at, visible, tokens=x)
    for new in (1, 2, 5):
        last = slice(LENGTH - new, None)
        features = encoding.features(x)
        if features is not None:  # made in two calls, as a cache gets them
            parts = encoding.features(x[:, : LENGTH - new]), encoding.features(x[:, last])
            torch.testing.assert_close(torch.cat(parts, dim=-1), features, **EXACT)
        step = bias_of(encoding, q[:, :, last], k, at[..., last], at, visible[:, :, last], tokens=x)
        seen = visible[:, :, last].expand_as(step)
        torch.testing.assert_close(step[seen], whole[:, :, last][seen], **EXACT)


@pytest.mark.parametrize("name", ["cope", "forget gate"])
def test_hidden_keys_do_not_count(name):
    """A key hidden from one query in the middle of others: whatever stands there, to the last bit."""
    layer, x = layer_of(name), tokens()
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    visible[5, 2:4] = False
    once = layer(x, mask=Explicit(visible))[:, 5]
    other = x.clone()
    other[:, 2:4] = 1e3 * torch.randn(2, 2, MODEL_DIM, dtype=x.dtype)
    assert torch.equal(layer(other, mask=Explicit(visible))[:, 5], once)
    visible[5, 2] = True
    assert not torch.equal(layer(x, mask=Explicit(visible))[:, 5], once)


@pytest.mark.parametrize("kept", [0, 2**24])
@pytest.mark.parametrize("mask_name", [None, "causal & padding", "window 2 + 2"])
@forms
def test_gradients_to_input_and_parameters(monkeypatch, name, mask_name, kept):
    """Against finite differences, in blocks that are kept and in blocks that are recomputed."""
    force_small_blocks(monkeypatch, rows=2, kept=kept)
    layer, x = layer_of(name), tokens(4).requires_grad_()
    mask = None if mask_name is None else make_mask(mask_name, 4, 4)[0]
    names = [key for key, _ in layer.position.named_parameters()]
    values = [parameter.detach().clone().requires_grad_() for parameter in layer.position.parameters()]

    def call(x, *values):
        parameters = {f"position.{key}": value for key, value in zip(names, values, strict=True)}
        return torch.func.functional_call(layer, parameters, (x,), {"mask": mask})

    assert gradcheck(call, (x, *values), fast_mode=True)


@forms
def test_the_map_is_of_the_same_weights(monkeypatch, name):
    """``with_weights`` gives the same output to the last bit; the map times values is what was averaged."""
    force_small_blocks(monkeypatch)
    layer, x = layer_of(name, mask=Causal()), tokens()
    output, weights = layer.with_weights(x)
    assert torch.equal(output, layer(x))
    v = layer.value(x).unflatten(-1, (2, -1)).transpose(1, 2).repeat_interleave(2, dim=1)
    heads = weights @ v
    if "values" in layer.position.acts_on:
        heads = heads + layer.position.value_bias(weights.dense(), torch.arange(6), torch.arange(6))
    torch.testing.assert_close(layer.output(heads.transpose(1, 2).flatten(-2)), output, **EXACT)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@forms
def test_half_precision_far_away(name, dtype):
    """The bias of half-precision numbers is that of the same numbers in float64, to float32 rounding."""
    encoding = form(name).to(dtype)
    x, at = tokens().to(dtype), torch.arange(LENGTH) + 100_003
    q, k = words(2, 4, LENGTH, 3).to(dtype), words(2, 2, LENGTH, 3).to(dtype)
    bias = bias_of(encoding, q, k, at, at, tokens=x)
    assert bias.dtype == torch.float32
    exact = bias_of(encoding.double(), q.double(), k.double(), at, at, tokens=x.double())
    # some fifty products and sums of size up to 10, each rounded by 2^-24
    torch.testing.assert_close(bias.double(), exact, rtol=0.0, atol=50 * 10 * 2**-24)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        wide = bias_of(form(name).float(), q.float(), k.float(), at, at, tokens=x.float())
    assert wide.dtype == torch.float32


@pytest.mark.parametrize("name", ["shaw", "transformer-xl", "deberta, buckets", "cope", "forget gate"])
def test_compiled_in_one_graph(name):
    """Positions cannot be read there, so the general path runs: the same numbers."""
    torch._dynamo.reset()
    layer, x = layer_of(name, mask=Causal()), tokens()
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x), **EXACT)


def test_padding_on_the_left_of_forget_gates_and_cope():
    keep = torch.tensor([[False, False, True, True, True, True], [True] * 6])
    for name in ("cope", "forget gate"):
        layer, x, padding = layer_of(name, mask=Causal()), tokens(), Padding(keep)
        alone = layer(x[:1, 2:])
        padded = layer(x, mask=padding, positions=padding.positions())[:1, 2:]
        torch.testing.assert_close(padded, alone, **EXACT)


@forms
def test_no_tensor_is_as_large_as_the_matrix(monkeypatch, name):
    """A training step at 512 tokens: nothing holds more numbers than the score matrices of a block."""
    limit_blocks(monkeypatch)
    monkeypatch.setattr(deberta, "_SCORES_AT_ONCE", BUDGET)
    layer = layer_of(name, mask=Causal())
    x = words(1, MEMORY_LENGTH, MODEL_DIM)
    with LargestTensor() as largest:
        layer(x).sum().backward()
    assert largest.numbers <= 2 * BUDGET  # made for two heads, where these have four


@forms
def test_dropout_of_the_layer(monkeypatch, name):
    """In training weights fall out, keys and values alike; in evaluation none does."""
    layer, x = layer_of(name, dropout=0.5), tokens()
    assert torch.equal(layer(x), layer(x))
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def test_a_chain_passes_on_what_they_need():
    """Two forget gates, one in a chain of its own, Shaw and DeBERTa: terms add up, each with its features."""
    parts = [form(name) for name in ("forget gate", "shaw", "deberta", "forget gate")]
    chain = Chain(parts[0], parts[1], Chain(parts[2], parts[3]))
    assert chain.acts_on == ("scores", "values")
    assert chain.content_scale == 3**-0.5
    x, at = tokens(), ORDERS["from 0"]
    q, k = words(2, 4, LENGTH, 3), words(2, 2, LENGTH, 3)
    together = bias_of(chain, q, k, at, at, tokens=x)
    alone = [bias_of(part, q, k, at, at, tokens=x) for part in parts]
    torch.testing.assert_close(together, sum(alone), **EXACT)
    weights = torch.rand(2, 4, LENGTH, LENGTH, dtype=torch.float64)
    assert torch.equal(chain.value_bias(weights, at, at), parts[1].value_bias(weights, at, at))
    layer = MultiHeadAttention(MODEL_DIM, 4, kv_heads=2, position=chain, mask=Causal()).double()
    assert layer(x).isfinite().all()
    assert Chain(form("cope")).features(x) is None


@forms
def test_a_query_of_nan_spoils_its_own_row_alone(name):
    """Nothing raises, and the rows of the batch that hold numbers are what they are without it."""
    layer, x = layer_of(name, mask=Causal()), tokens()
    alone = layer(x)
    bad = x.clone()
    bad[0, LENGTH - 1] = torch.nan
    output = layer(bad)
    assert output[0, LENGTH - 1].isnan().all()
    torch.testing.assert_close(output[1], alone[1], **EXACT)


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("name", ["transformer-xl", "deberta", "deberta, buckets"])
def test_what_depends_on_no_query_is_made_once_for_a_call(monkeypatch, name, chained):
    """The projected table and the sinusoids of the keys, however many blocks of queries read them."""
    force_small_blocks(monkeypatch)
    layer, x, calls = layer_of(name), tokens(), []
    kind = type(layer.position)
    make = "_waves" if name == "transformer-xl" else "_rows"
    made = getattr(kind, make)
    monkeypatch.setattr(kind, make, lambda *given: (calls.append(1), made(*given))[1])
    by_itself = layer(x, mask=Causal())
    if chained:
        layer.position = Chain(layer.position, form("shaw"))
        layer(x, mask=Causal())
    assert len(calls) == 1 + chained
    monkeypatch.setattr(kind, "prepare", lambda *_: None)
    if not chained:
        torch.testing.assert_close(layer(x, mask=Causal()), by_itself, **EXACT)
        assert len(calls) > 3, "one for each block"
