"""The matrix of attention probabilities as a lazy object: read in any way, never built."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.block import BiasFunction, Scores
from headwise.core.blocks import wide
from headwise.core.inputs import check_inputs
from headwise.core.map_compiled import can_be_compiled, compiled_statistics_of
from headwise.core.map_distance import Distance, distance_of
from headwise.core.map_inputs import (
    check_batched,
    check_classes,
    check_dense,
    check_indices,
    check_keep,
    check_same_length,
    check_values,
)
from headwise.core.map_picture import HTML_BINS, TEXT_BINS, as_html, as_text
from headwise.core.map_pieces import Piece, ScoredRows, pieces_of
from headwise.core.map_products import Transposed, product
from headwise.core.map_statistics import Statistics, received_by, statistics_of
from headwise.core.map_values import lengths_of, with_key_bias
from headwise.core.masks import Mask
from headwise.core.shapes import check_positive
from headwise.core.sinks import sinks_of_queries


class AttentionMap:
    """``P = softmax(cap(scale * Q K^T) + bias)`` over the visible keys, for every query of every head.

    The shape is ``batch heads query key``; grouped queries are counted as query heads. Nothing of size
    query * key is ever held: each reading goes through blocks of queries, exactly, in float32 or better.
    ``sinks``, logits of heads or of their queries, take part in the softmax and are no key: rows then add up
    to less than 1. A query that sees no key has a row of zeros. A map is a record: it passes no gradient.

    Vaswani et al. 2017, arXiv 1706.03762, eq. (1). Raises HeadwiseError if the inputs do not fit each other.

    >>> from headwise.core import Causal
    >>> q = k = torch.zeros(1, 2, 4, 8)
    >>> p = AttentionMap(q, k, mask=Causal())
    >>> p.shape
    (1, 2, 4, 4)
    >>> p.entropy()[0, 0].exp()  # how many keys each query spreads over
    tensor([1., 2., 3., 4.])
    >>> p.received()[0, 0]
    tensor([2.0833, 1.0833, 0.5833, 0.2500])
    """

    def __init__(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        *,
        mask: Mask | None = None,
        bias: Float[Tensor, "#batch #heads query key"] | BiasFunction | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        sinks: Float[Tensor, " heads"] | Float[Tensor, "#batch heads query"] | None = None,
    ) -> None:
        check_inputs(q, k, k, mask=mask, bias=bias, softcap=softcap, dropout=0.0, scale=scale)
        self.q, self.k = q.detach(), k.detach()
        self.how = Scores(mask, bias, q.shape[-1] ** -0.5 if scale is None else scale, softcap)
        sinks = sinks_of_queries(sinks, self.shape[:3], who="AttentionMap")
        self.sinks = None if sinks is None else sinks.detach().to(self.dtype)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, query heads, queries, keys."""
        batch, heads, queries, _ = self.q.shape
        return batch, heads, queries, self.k.shape[2]

    @property
    def dtype(self) -> torch.dtype:
        """What every reading comes in: float32, or float64 from such inputs."""
        return wide(self.q[:0]).dtype

    def pieces(self, queries: Int[Tensor, " rows"] | None = None) -> Iterator[Piece]:
        """The map in blocks of whole rows, all of them or those of ``queries``.

        Any reading can be built on it. A pass is what takes time, so readings can share one.
        """
        return self._pieces(queries, reuse=False)

    def __matmul__(
        self, values: Float[Tensor, "#batch #heads key columns"]
    ) -> Float[Tensor, "batch heads query columns"]:
        """``P W``: each query's weighted average of the rows of ``values``."""
        batch, heads, _, keys = self.shape
        check_batched(values, (batch, heads, keys), what="values")
        return self._of_rows(lambda part: product(part.weights, values[:, :, part.columns]), values.shape[3])

    @property
    def T(self) -> Transposed:  # noqa: N802
        """``P^T``, for ``map.T @ values``."""
        return Transposed(self._pieces, self.shape, self._zeros(0))

    def log_normalizer(self) -> Float[Tensor, "batch heads query"]:
        """``log sum_j exp(S_ij)`` of each query, sinks included; minus infinity where nothing is seen."""
        return self._of_rows(lambda piece: piece.log_normalizer)

    def entropy(self) -> Float[Tensor, "batch heads query"]:
        """``- sum_j p_ij log p_ij`` in nats: 0 for one key, ``log n`` for n keys evenly."""
        return self._of_rows(lambda piece: piece.entropy)

    def received(self) -> Float[Tensor, "batch heads key"]:
        """``sum_i p_ij``: how much attention each key gets from all queries together."""
        return received_by(self._pieces(), self.shape, self._zeros(0), 1).total.to(self.dtype)

    def diagonal(self, offset: int = 0) -> Float[Tensor, "batch heads entries"]:
        """``p_(i, i + offset)``, from each query's own place among the keys: -1 is the previous token.

        Queries for which there is no such key are left out.
        """
        _, _, queries, keys = self.shape
        rows = torch.arange(queries, device=self.q.device)
        columns = rows + (keys - queries) + offset
        exists = (columns >= 0) & (columns < keys)
        return self.entries(rows[exists], columns[exists])

    def entries(
        self, queries: Int[Tensor, " entries"], keys: Int[Tensor, " entries"]
    ) -> Float[Tensor, "batch heads entries"]:
        """``p_ij`` for pairs of a query and a key."""
        check_indices(queries, self.shape[2], what="queries")
        check_indices(keys, self.shape[3], what="keys")
        check_same_length(queries, keys)
        rows, place = torch.unique(queries, return_inverse=True)
        found = self._zeros(len(queries))
        done = 0
        for piece in self._pieces(rows):
            here = (place >= done) & (place < done + len(piece.rows))
            here &= (keys >= piece.columns.start) & (keys < piece.columns.stop)
            found[:, :, here] = piece.weights[:, :, place[here] - done, keys[here] - piece.columns.start]
            done += len(piece.rows)
        return found

    def rows(self, queries: Int[Tensor, " rows"]) -> Float[Tensor, "batch heads rows key"]:
        """Whole rows, dense."""
        check_indices(queries, self.shape[2], what="queries")
        return self._rectangle(queries, torch.arange(self.shape[3], device=self.q.device))

    def tile(self, queries: slice, keys: slice) -> Float[Tensor, "batch heads rows columns"]:
        """A rectangle at full resolution, dense: ``map.tile(slice(100, 160), slice(80, 160))``."""
        _, _, rows, columns = (torch.arange(size, device=self.q.device) for size in self.shape)
        return self._rectangle(rows[queries], columns[keys])

    def dense(self) -> Float[Tensor, "batch heads query key"]:
        """The whole matrix, or HeadwiseError with the memory it would take where that is over 1 GiB."""
        return self.rows(torch.arange(self.shape[2], device=self.q.device))

    def mass(self, classes: Bool[Tensor, "classes key"]) -> Float[Tensor, "batch heads query classes"]:
        """How much each query gives to each class of keys: special tokens, a segment, one named token."""
        check_classes(classes, self.shape[3])
        return self @ classes.T[None, None].to(self.dtype)

    def pool(self, bins: int = 64) -> Float[Tensor, "batch heads query_bins key_bins"]:
        """An overview: the mass that the average query of a bin of queries gives to each bin of keys."""
        check_positive(bins, who="AttentionMap.pool", what="bins")
        return received_by(self._pieces(), self.shape, self._zeros(0), bins).pool()

    def distance(self) -> Distance:
        """How far each query looks, in tokens: mean, spread, and the mass by distance in doubling bins."""
        return distance_of(self._pieces(), self.shape, self._zeros(0))

    def statistics(
        self,
        *,
        queries: Int[Tensor, " rows"] | None = None,
        keep: Bool[Tensor, "batch query"] | None = None,
        classes: Bool[Tensor, "classes key"] | None = None,
        bins: int = 64,
    ) -> Statistics:
        """The usual readings together, in the time of one pass, for all queries or those asked for.

        ``keep`` leaves queries out of every sum over queries, padding say; ``classes`` are those of ``mass``.
        """
        check_positive(bins, who="AttentionMap.statistics", what="bins")
        check_keep(keep, batch=self.shape[0], queries=self.shape[2])
        like = self._zeros(self.shape[2] if queries is None else len(queries))
        scored = self._scored(queries)
        if can_be_compiled(scored, self.sinks, like):
            return compiled_statistics_of(scored, self.sinks, self.shape, like, keep, classes, bins)
        pieces = pieces_of(scored, self.sinks, reuse=True)
        return statistics_of(pieces, self.shape, like, keep, classes, bins)

    def top(
        self, k: int, queries: Int[Tensor, " rows"] | None = None
    ) -> tuple[Float[Tensor, "batch heads rows k"], Int[Tensor, "batch heads rows k"]]:
        """The k largest weights of each query and the keys they are on, the largest first."""
        check_positive(k, who="AttentionMap.top", what="k")
        k = min(k, self.shape[3])
        weights, keys = [self._zeros(0, k)], [self._zeros(0, k).long()]
        for piece in self._pieces(queries):
            short = max(0, k - piece.weights.shape[-1])
            found = torch.nn.functional.pad(piece.weights, (0, short)).topk(k, dim=-1)
            weights.append(found.values)
            keys.append((found.indices + piece.columns.start) % self.shape[3])
        return torch.cat(weights, dim=2), torch.cat(keys, dim=2)

    def value_weighted(
        self,
        v: Float[Tensor, "batch kv_heads key value_dim"],
        output_weight: Float[Tensor, "model_dim width"],
    ) -> AttentionMap:
        """The map of what arrives: ``p_ij ||f(v_j)||``, made to add up to 1, with ``f(v) = W_o v``.

        ``output_weight`` is the weight of the layer that mixes the heads, ``width = heads * value_dim``.
        Kobayashi et al. 2020, arXiv 2004.10102, section 3.
        """
        batch, heads, _, keys = self.shape
        how = self.how
        check_values(v, output_weight, (batch, heads, self.k.shape[1], keys))
        bias = with_key_bias(how.bias, lengths_of(v, output_weight, heads).log())
        return AttentionMap(self.q, self.k, mask=how.mask, bias=bias, scale=how.scale, softcap=how.softcap)

    def __repr__(self) -> str:
        batch, heads, queries, keys = self.shape
        mask = "" if self.how.mask is None else f", {self.how.mask}"
        return f"AttentionMap(batch {batch}, {heads} heads, {queries} queries, {keys} keys{mask})"

    def __str__(self) -> str:
        """A small picture: where the queries of the first heads look."""
        return as_text(repr(self), self.pool(TEXT_BINS)[0] if self.shape[0] else None)

    def _repr_html_(self) -> str:
        return as_html(repr(self), self.pool(HTML_BINS)[0] if self.shape[0] else None)

    def _scored(self, queries: Tensor | None) -> ScoredRows:
        if queries is not None:
            check_indices(queries, self.shape[2], what="queries")
        return ScoredRows(self.q, self.k, self.how, queries)

    def _pieces(self, queries: Tensor | None = None, *, reuse: bool = True) -> Iterator[Piece]:
        return pieces_of(self._scored(queries), self.sinks, reuse=reuse)

    def _of_rows(self, read: Callable[[Piece], Tensor], *sizes: int) -> Tensor:
        return torch.cat([self._zeros(0, *sizes), *map(read, self._pieces())], dim=2)

    def _rectangle(self, queries: Tensor, keys: Tensor) -> Tensor:
        check_dense((*self.shape[:2], len(queries), len(keys)), self.dtype)
        found, done = self._zeros(len(queries), len(keys)), 0
        for piece in self._pieces(queries):
            inside = (keys >= piece.columns.start) & (keys < piece.columns.stop)
            stop = done + len(piece.rows)
            found[:, :, done:stop, inside] = piece.weights[..., keys[inside] - piece.columns.start]
            done = stop
        return found

    def _zeros(self, *sizes: int) -> Tensor:
        return self.q.new_zeros(*self.shape[:2], *sizes, dtype=self.dtype)
