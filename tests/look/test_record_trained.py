"""Trained models: what is recorded of the fused kernels is what the eager model's own probabilities say."""

import numpy as np
import pytest
import torch

from headwise.look import record
from headwise.models import open_text_model
from tests.look.plainly import Text
from tests.look.recorded import CLOSE, check, on_fused_kernels, recorded

pytestmark = pytest.mark.usefixtures("fewest_scores")  # these short texts go through the compiled pass too

LONG = "The stock market fell sharply today, as traders feared that interest rates would rise once more."
SHORT = "A man is eating food."
REACTION = "CC(=O)Cl.OCC>>CC(=O)OCC"


@pytest.fixture(scope="module")
def minilm():
    return open_text_model(attention="eager")


@torch.no_grad()
def weights(network, **inputs):
    """The eager model's probabilities, layer by layer, in float64."""
    return [p.double().numpy() for p in network(**inputs, output_attentions=True).attentions]


def padded(ids, pad, side):
    """A batch of token lists as inputs."""
    longest = max(len(one) for one in ids)
    rows, keep = [], []
    for one in ids:
        fill = longest - len(one)
        rows.append([pad] * fill + one if side == "left" else one + [pad] * fill)
        keep.append([0] * fill + [1] * len(one) if side == "left" else [1] * len(one) + [0] * fill)
    return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(keep)}


def texts(p, keep=None, special=None, causal=False):
    """One layer's probabilities as texts without padding."""
    found = []
    for row, of_row in enumerate(p):
        real = [bool(x) for x in keep[row]] if keep is not None else [True] * of_row.shape[1]
        alone = of_row[:, real][:, :, real]
        length = alone.shape[1]
        visible = torch.ones(length, length).bool()
        marks = None if special is None else np.array(special[row])[real]
        found.append(Text(alone, visible=visible.tril() if causal else visible, special=marks))
    return found


@pytest.mark.parametrize("side", [None, "right", "left"])
def test_minilm(minilm, side):
    ids = minilm.tokenizer([LONG, SHORT])["input_ids"]
    inputs = minilm.encode(LONG).inputs if side is None else padded(ids, pad=0, side=side)
    special = [101, 102]  # [CLS] and [SEP]
    with on_fused_kernels(minilm.network) as network:
        recording = recorded(network, **inputs, special=special)
    marks = torch.isin(inputs["input_ids"], torch.tensor(special)).tolist()
    keep = None if side is None else inputs["attention_mask"]
    for layer, p in zip(recording.layers.values(), weights(minilm.network, **inputs), strict=True):
        assert (layer.heads, layer.kv_heads, layer.calls, layer.kind) == (12, 12, 1, "fused")
        check(layer, texts(p, keep, marks))
    assert recording.coverage.complete
    assert recording.coverage.calls == 6
    assert recording.documents == (1 if side is None else 2)


@pytest.mark.parametrize("side", [None, "left"])
def test_smollm2(smollm2, side):
    ids = [smollm2.encode(text).inputs["input_ids"][0].tolist() for text in (LONG, SHORT)]
    inputs = {"input_ids": torch.tensor(ids[:1])} if side is None else padded(ids, pad=2, side=side)
    with on_fused_kernels(smollm2.network) as network:
        recording = recorded(network, **inputs)
    assert recording.coverage.seen == {"fused": 30}
    assert recording.coverage.complete
    keep = None if side is None else inputs["attention_mask"]
    for layer, p in zip(recording.layers.values(), weights(smollm2.network, **inputs), strict=True):
        assert (layer.heads, layer.kv_heads, layer.documents) == (9, 3, 1 if side is None else 2)
        check(layer, texts(p, keep, causal=True))


@torch.no_grad()
def test_smollm2_token_by_token(smollm2):
    ids = smollm2.encode(SHORT).inputs["input_ids"]
    with on_fused_kernels(smollm2.network) as network:
        at_once = recorded(network, input_ids=ids)
        with record(network) as recording:
            cache = None
            for token in ids.T:
                cache = network(input_ids=token[None], cache=cache, use_cache=True).cache
    for stepped, whole in zip(recording.layers.values(), at_once.layers.values(), strict=True):
        assert (stepped.calls, stepped.documents, stepped.kv_heads) == (ids.shape[1], 1, 3)
        for name in ("entropy", "confidence", "distance", "spread", "self", "previous", "first"):
            torch.testing.assert_close(stepped.sums.mean(name), whole.sums.mean(name), atol=CLOSE, rtol=CLOSE)
        torch.testing.assert_close(stepped.sums.received, whole.sums.received, atol=CLOSE, rtol=CLOSE)
        assert torch.equal(stepped.sums.could, whole.sums.could)


def test_rxnmapper_is_one_module_called_twelve_times():
    model = open_text_model("rxnmapper", attention="eager")
    inputs = model.encode(REACTION).inputs
    with on_fused_kernels(model.network) as network:
        recording = recorded(network, **inputs)
    (module,) = recording.coverage.modules
    assert recording.names == [module, *(f"{module}#{number}" for number in range(1, 12))]
    for layer, p in zip(recording.layers.values(), weights(model.network, **inputs), strict=True):
        check(layer, texts(p))
