"""Whether the heads that hold induction write the token that they look at: copying, checked by the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import compress

from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.experiments.inside.outcome import predicts_next_token
from headwise.experiments.progress import each
from headwise.experiments.roles.battery import RoleResult
from headwise.experiments.roles.halves import first_half
from headwise.experiments.roles.probes import Probe
from headwise.look.roles.copying import Copying, copying
from headwise.look.roles.links import INDUCTION, links_of
from headwise.models import TextModel

MOST_HEADS, MOST_TEXTS = 10, 6  # 300 rows: a score is then known to about 0.07
LEAST = 0.5  # deviations above the mean logit; a convention, as the other bars
_NORMAL_95 = 1.96  # standard errors


def copies(found: Copying) -> bool:
    """``score >= 0.5`` and ``score - 1.96 error > null``: the head writes the token that it looks at.

    >>> copies(Copying("0.0", score=0.8, error=0.05, null=0.0, rank=0.7))
    True
    >>> copies(Copying("0.1", score=0.8, error=0.5, null=0.0, rank=0.7))
    False
    """
    return found.score >= LEAST and found.score - _NORMAL_95 * found.error > found.null


def copies_of(
    model: TextModel,
    result: RoleResult,
    probe: Probe,
    run: Callable[[Int[Tensor, "batch token"]], object],
    mixing: Mapping[str, Float[Tensor, "model_dim mixed"]],
    layers: int,
) -> list[Copying]:
    """``U W_o^h o_i`` of up to 10 heads that hold induction, the best first, on 6 texts of the second half.

    ``mixing`` is what mixes each layer's heads, by the name of the layer, as ``output_weights`` finds it.
    Empty for any other role, for a model that is no language model or shows no output embedding ``U``, and
    where some of the ``layers`` mix their heads by what was not found. Elhage et al. 2021, A Mathematical
    Framework for Transformer Circuits (OV circuits).

    >>> from headwise.experiments.roles.battery import HeadScore
    >>> from headwise.models import open_text_model
    >>> score = HeadScore("0.3", 0.9, 0.8, 1.0, 0.1, 0.9, 0.9, 0.9, 0.1, 0.1, 0.001, held=True)
    >>> result = RoleResult(INDUCTION, "", "", "", 1, 1, "", "", 0, 0, score, [score], "held")
    >>> copies_of(open_text_model(), result, Probe("", [], []), print, {}, 6)  # an encoder
    []
    """
    unembedding = _unembedding(model.network)
    if result.role != INDUCTION or not result.heads or unembedding is None:
        return []
    fits = all(weight.shape[0] == unembedding.shape[1] for weight in mixing.values())
    if not fits or len(mixing) != layers:
        return []
    heads = [score.head for score in result.heads[:MOST_HEADS]]
    second = ~first_half([text.notes.document for text in probe.texts])
    texts = each(
        list(compress(probe.texts, second))[:MOST_TEXTS], f"{model.name}: what heads of induction write"
    )
    return copying(
        model.network,
        heads,
        texts,
        lambda text: links_of(INDUCTION)(text)[INDUCTION],
        lambda text: run(text.ids[None]),
        unembedding=unembedding,
        output_weights=mixing,
    )


def _unembedding(network: nn.Module) -> Float[Tensor, "token model_dim"] | None:
    """The matrix that makes logits of states, where there is one."""
    if not predicts_next_token(network):
        return None
    made_by = getattr(network, "get_output_embeddings", lambda: None)()
    weight = getattr(made_by, "weight", None)
    return weight.detach() if isinstance(weight, Tensor) else None
