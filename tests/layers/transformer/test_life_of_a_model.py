"""Copying, saving, building without memory and casting keep a model what it is, ties and shared parts too."""

import copy
import io

import pytest
import torch
from torch import nn

from headwise.layers import (
    Decoder,
    Encoder,
    LanguageModel,
    Learned,
    MultiHeadAttention,
    TokenEmbedding,
    TokenModel,
    Transformer,
    make_blocks,
)
from tests.layers.transformer.small import (
    ATTENTION,
    MODELS,
    VOCABULARY,
    alibi,
    gpt,
    random_tokens,
    translator,
)

KINDS = {**MODELS, "translator": translator}
every_kind = pytest.mark.parametrize("name", KINDS)


def inputs(model):
    count = 2 if isinstance(model, Transformer) else 1
    return [random_tokens(2, 6) for _ in range(count)]


@every_kind
def test_state_dict_round_trip(name):
    model, other = KINDS[name]().eval(), KINDS[name]().eval()
    given = inputs(model)
    assert not torch.equal(model(*given), other(*given))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(model(*given), other(*given))


@every_kind
def test_only_parameters_are_saved(name):
    model = KINDS[name]()
    assert not list(model.buffers())
    assert model.state_dict().keys() == {path for path, _ in model.named_parameters(remove_duplicate=False)}


def meta_and_back(make):
    with torch.device("meta"):
        model = make()
    model.to_empty(device="cpu")
    for parameter in model.parameters():
        nn.init.constant_(parameter, torch.nan)
    model.reset_parameters()
    return model.eval()


@every_kind
def test_built_on_meta_then_filled(name):
    """Every weight is drawn, each by the module that owns it: the same seed gives what building gives."""
    model = meta_and_back(KINDS[name])
    given = inputs(model)
    assert model(*given).isfinite().all()
    built = KINDS[name]()
    for (path, drawn), parameter in zip(model.named_parameters(), built.parameters(), strict=True):
        assert drawn.isfinite().all(), path
        # a deviation of n numbers is itself off by a share of about 1 / sqrt(2 n): eight of that
        if drawn.numel() >= 64:
            torch.testing.assert_close(
                drawn.std(), parameter.std(), rtol=8 / (2 * 64) ** 0.5, atol=0.0, msg=path
            )
        elif drawn.dim() == 1:
            assert torch.equal(drawn, parameter), path


WAYS = {
    "as built": lambda make: make(),
    "a deep copy": lambda make: copy.deepcopy(make()),
    "cast": lambda make: make().double(),
    "built on meta": meta_and_back,
    "loaded by assignment": lambda make: loaded(make),
}


def loaded(make):
    with torch.device("meta"):
        model = make()
    model.load_state_dict(make().state_dict(), assign=True)
    return model


@pytest.mark.parametrize("way", WAYS)
def test_tied_tables_stay_tied(way):
    model = WAYS[way](gpt)
    assert [path for path in model.state_dict() if "output." in path and "blocks" not in path] == []
    with torch.no_grad():
        model.embedding.token.weight.zero_()
    assert not model(random_tokens(1, 4)).any()


@pytest.mark.parametrize("way", WAYS)
def test_an_embedding_of_two_stacks_stays_one(way):
    model = WAYS[way](translator)
    if way != "loaded by assignment":  # the state of one part arrives under two names
        assert model.encoder.embedding.token.weight is model.decoder.embedding.token.weight
    assert model.encoder.embedding is model.decoder.embedding
    size = sum(parameter.numel() for parameter in model.parameters())
    apart = sum(p.numel() for part in (model.encoder, model.decoder) for p in part.parameters())
    assert apart - size == VOCABULARY * 8


@pytest.mark.parametrize("way", ["as built", "a deep copy", "built on meta"])
def test_an_encoding_of_all_blocks_stays_one(way):
    def shared():
        table = Learned(40, 8)  # any encoding with a parameter
        attention = lambda width: MultiHeadAttention(width, 2, position=table)  # noqa: E731
        return Encoder(make_blocks(3, 8, attention=attention))

    stack = WAYS[way](shared)
    assert len({id(block.attention.layer.position.table) for block in stack.blocks}) == 1


def test_a_copy_is_apart():
    model = alibi().eval()
    twin, tokens = copy.deepcopy(model), random_tokens(2, 5)
    before = model(tokens)
    assert torch.equal(twin(tokens), before)
    for parameter in twin.parameters():
        nn.init.zeros_(parameter)
    assert torch.equal(model(tokens), before)


@every_kind
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_cast(name, dtype):
    model = KINDS[name]().to(dtype).eval()
    output = model(*inputs(model))
    assert output.dtype == dtype
    assert output.isfinite().all()


@pytest.mark.parametrize("name", ["llama"])
def test_compiled_whole_equals_eager(name):
    """One graph, no breaks; the arithmetic is the same but for the order of a few float32 operations."""
    model = KINDS[name]().eval()
    given = inputs(model)
    output = torch.compile(model, fullgraph=True, backend="aot_eager")(*given)
    eager = model(*given)
    atol = 100 * 2**-24 * float(eager.detach().abs().max())
    torch.testing.assert_close(output, eager, rtol=0.0, atol=atol)
    torch.compiler.reset()


def test_what_is_inside_can_be_any_module():
    """Parts of no reset_parameters are looked through."""
    mlp = lambda width: nn.Sequential(nn.Linear(width, 5), nn.Tanh(), nn.Linear(5, width))  # noqa: E731
    blocks = make_blocks(1, 8, attention=ATTENTION, mlp=mlp)
    model = LanguageModel(TokenEmbedding(VOCABULARY, 8), Decoder(blocks))
    before = {path: parameter.clone() for path, parameter in model.named_parameters()}
    model.reset_parameters()
    changed = {
        path for path, parameter in model.named_parameters() if not torch.equal(parameter, before[path])
    }
    assert {f"stack.blocks.0.mlp.layer.{i}.weight" for i in (0, 2)} <= changed
    assert isinstance(TokenModel(model.embedding, model.stack)(random_tokens(1, 3)), torch.Tensor)
