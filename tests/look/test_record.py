"""Random small models of transformers: what is recorded is what the eager model's own probabilities say."""

import copy

import pytest
import torch
import transformers

from headwise.look import watch
from tests.look.models import dense
from tests.look.plainly import Text
from tests.look.recorded import check, recorded
from tests.look.test_hugging_face import EAGER, FUSED, attentions, inputs, model

CAUSAL = ("Llama", "GPT2", "Bloom", "GptOss", "Mistral", "Falcon")
VISION = {
    "Swin": transformers.SwinConfig(  # windows of 16 patches, shifted in every other layer
        image_size=16, patch_size=2, embed_dim=8, depths=[2, 2], num_heads=[2, 4], window_size=4
    ),
    "ViT": transformers.ViTConfig(
        image_size=18, patch_size=2, hidden_size=24, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=4,
    ),
    "Dinov2": transformers.Dinov2Config(
        image_size=14, patch_size=2, hidden_size=24, num_hidden_layers=2, num_attention_heads=4
    ),
}  # fmt: skip


def sees(name, queries, keys):
    """Which keys each query may see."""
    visible = torch.ones(queries, keys).bool()
    if name in CAUSAL:
        visible = visible.tril()
    return visible.triu(-3) if name == "Mistral" else visible  # the last four


def texts(name, p, given, decoder):
    """One layer's probabilities without padding; a decoder's tokens are all real."""
    keep = given.get("attention_mask", torch.ones(2, 7)).bool()
    queries, keys = p.shape[2:]
    found = []
    for row, of_row in enumerate(p):
        real = [keep[row] if size == 7 else torch.ones(size).bool() for size in (queries, keys)]
        alone = of_row[:, real[0]][:, :, real[1]]
        visible = sees(name, *alone.shape[1:])
        visible = visible.tril() if decoder and queries == keys else visible
        found.append(Text(alone.double(), visible=visible, place=0 if queries == keys else None))
    return found


@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize(
    ("name", "attention"), [*((name, "sdpa") for name in FUSED), *((name, "eager") for name in EAGER)]
)
def test_as_the_eager_model_says(name, attention, side):
    given = inputs(name, side)
    recording = recorded(model(name, attention), **given)
    with torch.no_grad():
        wanted = attentions(model(name, "eager")(**given, output_attentions=True))
    assert recording.coverage.complete, recording.coverage
    for layer, p in zip(recording.layers.values(), wanted, strict=True):
        assert (layer.documents, layer.calls) == (2, 1)
        if name in ("Llama", "Mistral", "GptOss"):  # also where the model repeats its keys
            assert (layer.heads, layer.kv_heads) == ((4, 2) if name == "GptOss" else (6, 2))
        check(layer, texts(name, p, given, decoder="decoder" in layer.name))


def test_falcons_mask_is_its_penalty_and_its_causality():
    # compared with the formula, as the library's own eager Falcon adds the penalty twice
    calls, given = [], inputs("Falcon", None)
    recording = recorded(model("Falcon", "sdpa"), **given)
    with torch.no_grad(), watch(model("Falcon", "sdpa"), calls.append):
        model("Falcon", "sdpa")(**given)
    slopes, keys = torch.tensor([0.25, 0.0625, 0.015625, 0.00390625]), torch.arange(7.0)
    penalty = (slopes[:, None, None] * keys / 6**0.5).expand(2, 4, 7, 7)
    visible = torch.ones(7, 7).bool().tril()
    for layer, call in zip(recording.layers.values(), calls, strict=True):
        assert (layer.heads, layer.kv_heads) == (4, 1)
        check(layer, [Text(one, visible=visible) for one in dense(call.q, call.k, 6**-0.5, visible, penalty)])


@torch.no_grad()
def picture_model(name, attention):
    torch.manual_seed(0)
    config = copy.deepcopy(VISION[name])
    config._attn_implementation = attention
    made = getattr(transformers, f"{name}Model")(config).eval()
    for parameter in made.parameters():  # so that heads differ
        parameter.mul_(4.0 if parameter.dim() == 2 else 1.0)
    return made


@torch.no_grad()
def weights_given(network, picture):
    """What each attention module gives beside its output: of a stage, Swin itself shows one block."""
    found = []
    for module in network.modules():
        if type(module).__name__.endswith("Attention"):
            module.register_forward_hook(lambda module, args, output: found.append(output[1]))
    network(picture)
    return found


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", VISION)
def test_pictures(name, attention):
    size = VISION[name].image_size
    picture = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    recording = recorded(picture_model(name, attention), picture)
    wanted = weights_given(picture_model(name, "eager"), picture)
    assert recording.coverage.complete
    assert len(recording.layers) == (4 if name == "Swin" else 2)
    for layer, p in zip(recording.layers.values(), wanted, strict=True):
        assert layer.documents == len(p)
        check(layer, [Text(one, visible=torch.ones(one.shape[1:])) for one in p.double()])
