"""Copying checked by the output: does what a head writes raise the logit of the token that it looks at?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.look.calls.call import AttentionCall
from headwise.look.calls.watch import watch
from headwise.look.removal.head import Head, HeadLike, as_heads
from headwise.look.removal.layers import Layers
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.question import Items


@dataclass(frozen=True)
class Copying:
    """What one head writes at the rows asked, read as logits of all tokens.

    ``score`` is how many standard deviations the logit of the token to be looked at is above the mean of all
    logits, in the mean over rows, and ``error`` its standard error with texts as units; ``null`` the same of
    another token of the text, drawn at random; ``rank`` the share of all tokens whose logit is lower.
    """

    head: str
    score: float
    error: float
    null: float
    rank: float


@torch.no_grad()
def copying(
    model: nn.Module,
    heads: Iterable[HeadLike],
    texts: Iterable[Labelled],
    items_of: Callable[[Labelled], Items],
    run: Callable[[Labelled], object],
    *,
    unembedding: Float[Tensor, "token model_dim"],
    output_weights: Mapping[str, Float[Tensor, "model_dim mixed"]],
    seed: int = 0,
) -> list[Copying]:
    """How much heads raise the logits of the tokens that they should look at, ``U W_o^h o_i`` for row i.

    ``o_i`` is the head's output, ``W_o^h`` its columns of what mixes the heads. The scaling of the final norm
    is left out, and so is everything between the head and the end: this is the head's direct effect.
    ``items_of`` gives a text's rows and targets, by tokens. Elhage et al. 2021, A Mathematical Framework for
    Transformer Circuits (OV circuits); Olsson et al. 2022, arXiv 2209.11895 (copying).

    Raises HeadwiseError if there is no such head, or if what mixes its layer's heads is not known.
    """
    reader = _Reader(as_heads(list(heads)), items_of, unembedding, output_weights, seed)
    with watch(model, reader.take):
        for text in texts:
            reader.text = text
            run(text)
    reader.layers.check(reader.heads, who="copying")
    return [reader.result(head) for head in reader.heads]


@dataclass
class _Reader:
    heads: Sequence[Head]
    items_of: Callable[[Labelled], Items]
    unembedding: Tensor
    output_weights: Mapping[str, Tensor]
    seed: int
    text: Labelled | None = None
    layers: Layers = field(default_factory=Layers)
    found: dict[Head, list[Tensor]] = field(default_factory=dict)

    def take(self, call: AttentionCall) -> None:
        number = self.layers.note(call)
        here = [head for head in self.heads if head.layer in (number, call.layer)]
        if not here or self.text is None:
            return
        self.layers.check(here, who="copying")
        weight = self.output_weights.get(call.layer)
        if weight is None:
            raise _unmixed(call)
        items = self.items_of(self.text)
        right = self.text.ids[items.targets.int().argmax(1)]
        other = _others(self.text.ids, right, self.seed)
        width = call.output.shape[3]
        for head in here:
            columns = weight[:, head.head * width : (head.head + 1) * width]
            written = call.output[0, head.head, items.rows].float() @ columns.float().T
            figures = _figures(written @ self.unembedding.float().T, right, other)
            self.found.setdefault(head, []).append(figures)

    def result(self, head: Head) -> Copying:
        of_texts = self.found[head]
        rows = torch.cat(of_texts, dim=1)
        means = np.array([float(figures[0].mean()) for figures in of_texts])
        error = float(means.std(ddof=1) / len(means) ** 0.5) if len(means) > 1 else float("nan")
        score, null, rank = rows.mean(1).tolist()
        return Copying(str(head), score, error, null, rank)


def _figures(
    logits: Float[Tensor, "row token"], right: Int[Tensor, " row"], other: Int[Tensor, " row"]
) -> Float[Tensor, "figure row"]:
    """Score, null and rank of each row; 0 and 0 where a head writes nothing that tells tokens apart."""
    deviation, mean = torch.std_mean(logits, dim=1, correction=0)
    pair = logits.gather(1, torch.stack([right, other], dim=1))
    above = (pair - mean[:, None]) / deviation.where(deviation > 0, 1.0)[:, None]
    rank = (logits < pair[:, :1]).float().mean(1)
    return torch.cat([above.T, rank[None]])


def _others(ids: Int[Tensor, " token"], right: Int[Tensor, " row"], seed: int) -> Int[Tensor, " row"]:
    """For each row a random token of the text that is not the right one, the same for every head."""
    random = torch.Generator().manual_seed(seed)
    different = (ids != right[:, None]).float()
    return ids[torch.multinomial(different, 1, generator=random)[:, 0]]


def _unmixed(call: AttentionCall) -> HeadwiseError:
    return HeadwiseError(
        who="copying",
        what=f"what mixes the heads of layer {call.layer or 'the model'!r}",
        expected="a linear layer that is given their joined output",
        got="none that was found",
        why="A head's part of the output is its columns of that layer's weight",
        do="Leave this layer's heads out, or give its weight in output_weights",
    )
