"""Generated text: the same with a cache and without, alone and in a batch, and by a plain loop."""

from functools import partial

import pytest
import torch
from torch import nn

from headwise.core import Causal, Padding, SlidingWindow
from headwise.layers import (
    Decoder,
    KVCache,
    LanguageModel,
    Learned,
    MultiHeadAttention,
    RingCache,
    Rotary,
    Sample,
    TokenEmbedding,
    generate,
)
from tests.layers.transformer.small import (
    MODEL_DIM,
    VOCABULARY,
    WRITERS,
    blocks,
    exact,
    gpt,
    llama,
    random_tokens,
    translator,
)

EXACT = {"rtol": 0.0, "atol": 1e-12}
LEFT = torch.tensor([[False, False, True, True, True], [True] * 5, [False, True, True, True, True]])
every_writer = pytest.mark.parametrize("name", WRITERS)


def windowed():
    """Windows of 3 in each layer: the layer's mask and the decoder's meet."""
    attention = partial(MultiHeadAttention, heads=2, position=Rotary(), mask=SlidingWindow(3))
    stack = Decoder(blocks(attention=attention), norm=nn.LayerNorm(MODEL_DIM))
    return LanguageModel(TokenEmbedding(VOCABULARY, MODEL_DIM, std=1.0), stack)


def by_plain_loop(model, tokens, count):
    """The most likely next token of one row, again and again, with nothing kept."""
    row = tokens.tolist()
    for _ in range(count):
        scores = model(torch.tensor([row]))[0, -1].tolist()
        row.append(max(range(len(scores)), key=lambda i: scores[i]))
    return row


@every_writer
@pytest.mark.parametrize("make_cache", [KVCache, None], ids=["cache", "no cache"])
def test_greedy_is_the_plain_loop(name, make_cache):
    model, tokens = exact(WRITERS[name]), random_tokens(3, 4)
    written = generate(model, tokens, 12, make_cache=make_cache)
    assert written.tolist() == [by_plain_loop(model, row, 12) for row in tokens]


@every_writer
@pytest.mark.parametrize("make_cache", [KVCache, None], ids=["cache", "no cache"])
def test_padded_rows_are_written_as_they_would_be_alone(name, make_cache):
    model, tokens = exact(WRITERS[name]), random_tokens(3, 5)
    written = generate(model, tokens, 12, keep=LEFT, make_cache=make_cache)
    for row in range(3):
        real = tokens[row][LEFT[row]]
        assert written[row, 5:].tolist() == by_plain_loop(model, real, 12)[len(real) :]


@pytest.mark.parametrize("make", [*WRITERS.values(), windowed])
@pytest.mark.parametrize("padded", [False, True])
def test_with_a_cache_the_scores_are_those_of_the_whole_text(make, padded):
    """In pieces of 4, 1, 2 and 3 tokens: everything the model can be told."""
    model, tokens = exact(make), random_tokens(3, 10)
    keep = torch.cat((LEFT, torch.ones(3, 5, dtype=torch.bool)), dim=1) if padded else None
    whole = model(tokens, keep=keep)
    cache, first, pieces = model.new_cache(), 0, []
    for length in (5, 1, 1, 3):
        piece = slice(first, first + length)
        pieces.append(model(tokens[:, piece], keep=None if keep is None else keep[:, piece], cache=cache))
        first += length
    assert [len(one.tokens) for one in cache] == [10, 10]
    real = torch.ones(3, 10, dtype=torch.bool) if keep is None else keep
    torch.testing.assert_close(torch.cat(pieces, dim=1)[real], whole[real], **EXACT)


def test_windows_are_written_with_a_ring():
    model, tokens = exact(windowed), random_tokens(2, 6)
    whole = generate(model, tokens, 12, make_cache=None)
    assert torch.equal(generate(model, tokens, 12), whole)
    assert torch.equal(generate(model, tokens, 12, make_cache=partial(RingCache, window=3)), whole)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("make_cache", [KVCache, None], ids=["cache", "no cache"])
def test_a_decoder_with_a_memory_writes(padded, make_cache):
    model, source, start = exact(translator), random_tokens(3, 5), random_tokens(3, 1)
    keep = LEFT if padded else None
    written = generate(
        model.decoder,
        start,
        9,
        memory=model.encoder(source, keep=keep),
        memory_mask=Padding(LEFT) if padded else None,
        make_cache=make_cache,
    )
    for row in range(3):
        text = source[row][LEFT[row]][None] if padded else source[row][None]
        expected = start[row].tolist()
        for _ in range(9):
            expected.append(int(model(text, torch.tensor([expected]))[0, -1].argmax()))
        assert written[row].tolist() == expected


@every_writer
def test_sampling_is_the_same_with_and_without_a_cache_and_again(name):
    model, tokens = exact(WRITERS[name]), random_tokens(3, 4)

    def write(seed, **options):
        generator = torch.Generator().manual_seed(seed)
        return generate(model, tokens, 12, pick=Sample(1.5, top_k=8), generator=generator, **options)

    first = write(1)
    assert torch.equal(first, write(1))
    assert torch.equal(first, write(1, make_cache=None))
    assert not torch.equal(first, write(2))


class Scripted(LanguageModel):
    """Whatever it reads, it says what was written down for each row."""

    def __init__(self, says):
        super().__init__(TokenEmbedding(VOCABULARY, MODEL_DIM), Decoder(blocks(1)))
        self.says, self.calls = says, 0

    def logits(self, hidden):
        self.calls += 1
        return nn.functional.one_hot(self.says[:, self.calls - 1], VOCABULARY).float()


def test_a_row_that_stopped_goes_on_with_its_stop_and_the_last_ends_the_call():
    model = Scripted(torch.tensor([[3, 9, 4, 4, 4], [5, 5, 5, 9, 4]]))
    written = generate(model, random_tokens(2, 2), 5, stop=9)
    assert written[:, 2:].tolist() == [[3, 9, 9, 9], [5, 5, 5, 9]]
    assert model.calls == 4
    assert generate(Scripted(model.says), random_tokens(2, 2), 5)[:, 2:].tolist() == model.says.tolist()


def test_the_model_is_in_evaluation_and_then_as_it_was():
    torch.manual_seed(0)
    model = gpt(dropout=0.5).train()
    model.embedding.eval()
    modes = [part.training for part in model.modules()]
    tokens = random_tokens(2, 4)
    first = generate(model, tokens, 8)
    assert torch.equal(generate(model, tokens, 8), first)
    assert [part.training for part in model.modules()] == modes
    assert True in modes
    assert False in modes


def test_nothing_of_a_call_is_left_for_the_next():
    model, tokens = exact(llama), random_tokens(2, 6)
    fresh = generate(model, tokens[:, :3], 5)
    generate(model, tokens, 9)
    assert torch.equal(generate(model, tokens[:, :3], 5), fresh)


def test_no_graph_is_kept():
    model = llama()
    seen = []
    model.stack.norm.register_forward_hook(lambda module, given, output: seen.append(output.requires_grad))
    generate(model, random_tokens(1, 3), 2)
    assert seen == [False, False]


def test_only_what_is_new_is_read():
    model, lengths = llama(), []
    model.embedding.register_forward_hook(lambda module, given, output: lengths.append(output.shape[1]))
    generate(model, random_tokens(1, 7), 3)
    generate(model, random_tokens(1, 7), 3, make_cache=None)
    assert lengths == [7, 1, 1, 7, 8, 9]


def test_positions_count_on_from_those_of_each_row():
    """A table of 8 rows serves 3 real tokens and 5 more, whatever the padding."""
    words = TokenEmbedding(VOCABULARY, MODEL_DIM, position=Learned(8, MODEL_DIM, std=1.0), std=1.0)
    model = LanguageModel(words, Decoder(blocks(), norm=nn.LayerNorm(MODEL_DIM))).double().eval()
    tokens = random_tokens(1, 9)
    keep = torch.arange(9)[None] >= 6
    written = generate(model, tokens, 6, keep=keep)
    assert written[0, 9:].tolist() == by_plain_loop(model, tokens[0, 6:], 6)[3:]


def test_gradients_flow_through_a_cache():
    """Training on a continuation is the same in two pieces."""
    model, tokens = exact(llama), random_tokens(2, 6)
    mixture = torch.randn(2, 2, VOCABULARY).double()
    (model(tokens)[:, 4:] * mixture).sum().backward()
    whole = {path: parameter.grad.clone() for path, parameter in model.named_parameters()}
    model.zero_grad()
    cache = model.new_cache()
    model(tokens[:, :4], cache=cache)
    (model(tokens[:, 4:], cache=cache) * mixture).sum().backward()
    for path, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, whole[path], **EXACT)


def test_a_layer_mask_that_is_a_combination_meets_padding_and_a_cache():
    attention = partial(MultiHeadAttention, heads=2, mask=Causal() & SlidingWindow(4))
    model = LanguageModel(
        TokenEmbedding(VOCABULARY, MODEL_DIM, std=1.0), Decoder(blocks(attention=attention))
    )
    model, tokens = exact(lambda: model), random_tokens(3, 5)
    padded = generate(model, tokens, 8, keep=LEFT)
    assert torch.equal(padded, generate(model, tokens, 8, keep=LEFT, make_cache=None))
