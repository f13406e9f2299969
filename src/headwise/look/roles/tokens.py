"""Roles of what a token is: first, special, punctuation, the same again, the rest of the word, rare."""

from __future__ import annotations

import unicodedata

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.look.roles.labelled import Labelled
from headwise.look.roles.question import Items, Question, items_from, largest_weight, share_among


def first_token(text: Labelled) -> dict[str, Items]:
    """The first token, from all others. Xiao et al. 2023, arXiv 2309.17453.

    >>> from headwise.look.roles.example import example
    >>> first_token(example("a b c"))["first token"].rows
    tensor([1, 2])
    """
    return {"first token": _keys(text, torch.arange(len(text)) == 0)}


def special_tokens(text: Labelled) -> dict[str, Items]:
    """Separators and the like but the first token. Clark et al. 2019, arXiv 1906.04341, section 3.2.

    >>> from headwise.look.roles.example import example
    >>> special_tokens(example("a b c"))["separators"].rows
    tensor([], dtype=torch.int64)
    """
    return {"separators": _keys(text, text.special & (torch.arange(len(text)) > 0))}


def punctuation(text: Labelled) -> dict[str, Items]:
    """Words of punctuation only. Clark et al. 2019, arXiv 1906.04341, section 3.2.

    >>> from headwise.look.roles.example import example
    >>> punctuation(example("yes , no"))["punctuation"].targets.long()
    tensor([[0, 1, 0],
            [0, 1, 0]])
    """
    marks = [
        all(unicodedata.category(letter)[0] in "PS" for letter in word.text) for word in text.notes.words
    ]
    of_words = torch.tensor([*marks, False])  # the last stands for tokens of no word
    return {"punctuation": _keys(text, of_words[text.words])}


def same_token(text: Labelled) -> dict[str, Items]:
    """Other places of the same token. Wang et al. 2022, arXiv 2211.00593, section 3: duplicate-token heads.

    >>> from headwise.look.roles.example import example
    >>> same_token(example("a b a"))["same token"].rows
    tensor([0, 2])
    """
    seen = text.visible(len(text)) & ~text.special
    same = (text.ids == text.ids[:, None]) & ~torch.eye(len(text), dtype=torch.bool)
    return {"same token": items_from(same & seen & ~text.special[:, None], text.visible(len(text)))}


def same_word(text: Labelled) -> dict[str, Items]:
    """The other pieces of a word that the tokenizer splits. Correia et al. 2019, arXiv 1909.00015, section 5.

    >>> from headwise.look.roles.example import example
    >>> same_word(example("a b a"))["same word"].rows
    tensor([], dtype=torch.int64)
    """
    seen = text.visible(len(text))
    same = (text.words == text.words[:, None]) & (text.words >= 0)
    others = same & ~torch.eye(len(text), dtype=torch.bool)
    return {"same word": items_from(others & seen, seen)}


def rarest_token(text: Labelled) -> dict[str, Items]:
    """The rarest token of the text, by how often all texts have it. Voita et al. 2019, arXiv 1905.09418.

    >>> from dataclasses import replace
    >>> from headwise.look.roles.example import example
    >>> text = replace(example("a b c"), counts=torch.tensor([9, 1, 5]))
    >>> rarest_token(text)["rarest token"].targets.long()
    tensor([[0, 1, 0],
            [0, 1, 0]])
    """
    if text.counts is None or bool(text.special.all()):
        return {}
    ordinary = ~text.special
    rarest = ordinary & (text.counts == text.counts[ordinary].min())
    others = text.visible(len(text)) & ordinary & ~torch.eye(len(text), dtype=torch.bool)
    asking = (ordinary & ~rarest)[:, None] & others
    return {"rarest token": items_from(rarest & asking, asking)}


def segment(text: Labelled) -> dict[str, Items]:
    """The own segment or speaker, against as many tokens of others that are as far away on the other side.

    Kovaleva et al. 2019, arXiv 1908.08593, call it a block; without the mirrored tokens any head that looks
    nearby would seem to know segments. A causal model sees no mirrored token, so nothing is asked of it.
    Words of no segment ("") are asked nothing, and are nobody's.

    >>> from headwise.look.roles.example import example
    >>> segment(example("a b c d", segments=("x", "x", "y", "y")))["own segment"].targets.long()
    tensor([[1, 0, 0, 0],
            [0, 0, 0, 1]])
    """
    names = {name: number for number, name in enumerate(dict.fromkeys(filter(None, text.notes.segments)))}
    if len(names) < 2 or text.causal:
        return {}
    of_words = torch.tensor([*(names.get(name, -1) for name in text.notes.segments), -1])
    of_tokens = of_words[text.words]
    place = torch.arange(len(text))
    mirror = 2 * place[:, None] - place
    inside = (mirror >= 0) & (mirror < len(text))
    theirs = of_tokens[mirror.clamp(0, len(text) - 1)]
    known = inside & (of_tokens >= 0) & (of_tokens[:, None] >= 0) & (theirs >= 0)
    own = known & (of_tokens == of_tokens[:, None]) & (theirs != of_tokens[:, None])
    others = own.gather(1, mirror.clamp(0, len(text) - 1)) & inside
    return {"own segment": items_from(own, own | others)}


def _keys(text: Labelled, keys: Bool[Tensor, " token"]) -> Items:
    """Some tokens as the targets of every row that sees one; a token is not its own target."""
    seen = text.visible(len(text))
    others = ~torch.eye(len(text), dtype=torch.bool)
    return items_from(keys & seen & others, seen)


TOKENS_ASKED = (
    Question("sinks", "How much weight goes to the first token?", first_token, offsets=False),
    Question("sinks", "How much weight goes to separators?", special_tokens),
    Question("sinks", "How much weight goes to punctuation?", punctuation),
    Question("tokens", "How much weight goes to the same token elsewhere?", same_token),
    Question("tokens", "How much weight goes to the rest of a split word?", same_word),
    Question(
        "tokens",
        "Is the largest weight on the rarest token?",
        rarest_token,
        measure=largest_weight,
        least=0.4,
    ),
)
SEGMENT_ASKED = Question(
    "tokens",
    "How much of the weight on either side goes to the own segment?",
    segment,
    measure=share_among,
    least=0.7,
    margin=0.2,
    offsets=False,
)
"""Apart from the others: it needs texts of several segments, which single sentences are not."""
