"""One attention call of a model: what went in, what came out, and how headwise says the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypedDict

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core import AttentionMap, BiasFunction, Causal, Explicit, Mask, Padding, attention_weights
from headwise.look.calls.corner import UpperLeftCausal
from headwise.look.calls.terms import Terms

HIDING = -9e3  # what is added to hide: exp of it is 0 in every dtype, and -10,000, a little off, is usual
Alignment = Literal["upper left", "lower right"]


class ScoreInputs(TypedDict):
    """The keyword arguments of ``headwise.core.attention_weights``."""

    mask: Mask | None
    bias: Tensor | BiasFunction | None
    scale: float
    softcap: float | None


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One call of attention, seen while a model ran: ``P = softmax(scale * Q K^T + bias)``, ``output = P V``.

    Our own layers may cap scores, ``softcap * tanh(scale * Q K^T / softcap)``, and have ``terms``: what an
    encoding adds to scores and to outputs, made where it is asked for.

    The tensors are detached but not copied: use them inside the callback, or clone what you keep.

    - ``visible`` is the boolean mask, True where a query may see a key; ``bias`` the numbers added to the
      scores. Both have four axes, any of which but the last may be 1.
    - ``causal`` is the kernel's flag with its corner. "upper left" means that query i sees keys 0 to i, also
      with more keys than queries.
    - ``scale`` is the number actually used. A model that scales its queries first has 1.0 here.
    - ``sinks`` are scores of extra columns that take probability and have no value, or None.
    - ``kind`` is "headwise", "fused", "multi_head_attention_forward" or "softmax": how the model computes it.
    - ``module`` is the path of the innermost module that was running, ``number`` the order of the call.
      ``occurrence`` counts the calls that this module had made before in the same pass of the model, as one
      module may call many times; ``layer`` names both.
    - ``output`` is what the model got, without its heads being joined.

    >>> from headwise.core import attention_weights
    >>> x = torch.zeros(1, 2, 3, 4)
    >>> call = AttentionCall(x, x, x, x, scale=0.5, causal="upper left", module="layer.0", number=0)
    >>> print(call)
    call 0 in layer.0: 2 heads, 3 queries, 3 keys, fused, causal (upper left)
    >>> attention_weights(call.q, call.k, **call.score_inputs())[0, 0]
    tensor([[1.0000, 0.0000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]])
    """

    q: Float[Tensor, "batch heads query head_dim"]
    k: Float[Tensor, "batch kv_heads key head_dim"]
    v: Float[Tensor, "batch kv_heads key value_dim"]
    output: Float[Tensor, "batch heads query value_dim"]
    scale: float
    visible: Bool[Tensor, "#batch #heads #query key"] | None = None
    bias: Float[Tensor, "#batch #heads #query key"] | None = None
    causal: Alignment | None = None
    sinks: Float[Tensor, "batch heads query sink"] | None = None
    softcap: float | None = None
    terms: Terms | None = None
    dropout: float = 0.0
    kind: str = "fused"
    module: str = ""
    occurrence: int = 0
    number: int = 0

    @property
    def layer(self) -> str:
        """Which attention of the model this is, the same in every pass: ``encoder.shared#3``.

        >>> x = torch.zeros(1, 1, 1, 2)
        >>> AttentionCall(x, x, x, x, scale=1.0, module="shared", occurrence=3).layer
        'shared#3'
        """
        return f"{self.module}#{self.occurrence}" if self.occurrence else self.module

    @property
    def heads(self) -> int:
        """How many query heads the call has."""
        return self.q.shape[1]

    @property
    def kv_heads(self) -> int:
        """How many key/value heads the call has; each serves ``heads / kv_heads`` query heads."""
        return self.k.shape[1]

    @property
    def mask(self) -> Mask | None:
        """The boolean mask and the causal flag as one mask of headwise, or None if every pair is visible."""
        queries, keys = self.q.shape[2], self.k.shape[2]
        masks: list[Mask] = []
        if self.causal == "upper left" and queries != keys:
            masks.append(UpperLeftCausal(keys - queries))
        elif self.causal is not None:
            masks.append(Causal())
        if self.visible is not None and self.visible.shape[1:3] == (1, 1) and queries > 1:
            masks.append(Padding(self.visible[:, 0, 0]))  # a row for each sequence is all it needs
        elif self.visible is not None:
            masks.append(Explicit(self.visible.expand(-1, -1, queries, keys)))
        return masks[0] & masks[1] if len(masks) == 2 else next(iter(masks), None)

    def score_inputs(self) -> ScoreInputs:
        """Mask, bias, scale and softcap for ``attention_weights(call.q, call.k, **call.score_inputs())``.

        That gives the model's probabilities, unless the call has sinks: ``weights`` counts those too.
        """
        bias: Tensor | BiasFunction | None = self.bias
        if self.bias is not None:
            bias = self.bias.expand(-1, -1, self.q.shape[2], self.k.shape[2])
        elif self.terms is not None and self.terms.of_scores is not None:
            bias = self.terms.bias
        return ScoreInputs(mask=self.mask, bias=bias, scale=self.scale, softcap=self.softcap)

    @cached_property
    def is_finite(self) -> bool:
        """Whether every number of the queries and keys is finite."""
        return all_finite(self.q) and all_finite(self.k)

    def map(self) -> AttentionMap:
        """The probabilities as a lazy map, sinks included.

        >>> x = torch.zeros(1, 1, 2, 4)
        >>> AttentionCall(x, x, x, x, scale=1.0, causal="upper left").map().entropy()[0, 0].exp()
        tensor([1., 2.])
        """
        return AttentionMap(self.q, self.k, **self.score_inputs(), sinks=self._sinks_of_queries())

    def weights(self) -> Float[Tensor, "batch heads query key"]:
        """The probabilities recomputed from queries and keys: dense, in float32 or better, before dropout.

        >>> x = torch.zeros(1, 1, 1, 2)
        >>> AttentionCall(x, x, x, x, scale=1.0, sinks=torch.zeros(1, 1, 1, 1)).weights()
        tensor([[[[0.5000]]]])
        """
        return attention_weights(self.q, self.k, **self.score_inputs(), sinks=self._sinks_of_queries())

    def at(self, rows: Int[Tensor, " row"]) -> AttentionCall:
        """The same call for some of its queries: causality becomes part of the mask.

        >>> x = torch.zeros(1, 1, 3, 2)
        >>> call = AttentionCall(x, x, x, x, scale=1.0, causal="upper left")
        >>> call.at(torch.tensor([1])).weights()
        tensor([[[[0.5000, 0.5000, 0.0000]]]])
        """
        visible, (queries, keys) = self.visible, (self.q.shape[2], self.k.shape[2])
        if visible is not None:
            visible = visible.expand(-1, -1, queries, -1)[:, :, rows]
        if self.causal is not None:
            last = rows if self.causal == "upper left" else rows + keys - queries
            before = (torch.arange(keys, device=rows.device) <= last[:, None])[None, None]
            visible = before if visible is None else before & visible
        bias = None if self.bias is None else self.bias.expand(-1, -1, queries, -1)[:, :, rows]
        sinks = None if self.sinks is None else self.sinks[:, :, rows]
        terms = None if self.terms is None else self.terms.only(queries=rows)
        changed = replace(self, q=self.q[:, :, rows], output=self.output[:, :, rows], bias=bias, terms=terms)
        return replace(changed, visible=visible, sinks=sinks, causal=None)

    def of(self, heads: Sequence[int]) -> AttentionCall:
        """The same call for some of its query heads, each with a key/value head of its own.

        >>> x, kv = torch.zeros(1, 4, 3, 2), torch.zeros(1, 2, 3, 2)
        >>> call = AttentionCall(x, kv, kv, x, scale=1.0).of([0, 3])
        >>> call.heads, call.kv_heads
        (2, 2)
        """
        chosen = torch.tensor(heads, dtype=torch.long, device=self.q.device)
        theirs = chosen // (self.heads // self.kv_heads)
        q, output, k, v = self.q[:, chosen], self.output[:, chosen], self.k[:, theirs], self.v[:, theirs]
        visible, bias = (
            x if x is None or x.shape[1] == 1 else x[:, chosen] for x in (self.visible, self.bias)
        )
        sinks = None if self.sinks is None else self.sinks[:, chosen]
        terms = None if self.terms is None else self.terms.only(heads=chosen)
        changed = replace(self, q=q, k=k, v=v, output=output, terms=terms)
        return replace(changed, visible=visible, bias=bias, sinks=sinks)

    def detached(self) -> AttentionCall:
        """The same call without its gradients.

        >>> x = torch.zeros(1, 1, 1, 2, requires_grad=True)
        >>> AttentionCall(x, x, x, x, scale=1.0).detached().v.requires_grad
        False
        """
        q, k, v, output = (x.detach() for x in (self.q, self.k, self.v, self.output))
        bias, sinks = (x if x is None else x.detach() for x in (self.bias, self.sinks))
        terms = None if self.terms is None else self.terms.detached()
        return replace(self, q=q, k=k, v=v, output=output, bias=bias, sinks=sinks, terms=terms)

    def _sinks_of_queries(self) -> Tensor | None:
        return None if self.sinks is None else self.sinks.logsumexp(-1)

    def __str__(self) -> str:
        heads = f"{self.heads} heads" + (f" on {self.kv_heads}" if self.kv_heads != self.heads else "")
        causal = f", causal ({self.causal})" if self.causal else ""
        where = self.module or "the model"
        sizes = f"{self.q.shape[2]} queries, {self.k.shape[2]} keys"
        return f"call {self.number} in {where}: {heads}, {sizes}, {self.kind}{causal}"


def all_finite(x: Tensor) -> bool:
    """Whether every number is finite; a sum tells that much faster, unless it overflows.

    >>> all_finite(torch.tensor([3e38, 3e38])), all_finite(torch.tensor([torch.inf, -torch.inf]))
    (True, False)
    """
    return bool(x.sum().isfinite()) or bool(x.isfinite().all())
