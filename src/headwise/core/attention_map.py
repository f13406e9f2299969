"""The matrix of attention probabilities as a lazy object: read in any way, never built."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headwise.core.block import BiasFunction, Scores
from headwise.core.blocks import wide
from headwise.core.inputs import check_inputs
from headwise.core.map_distance import Distance, distance_of
from headwise.core.map_inputs import (
    check_batched,
    check_classes,
    check_dense,
    check_indices,
    check_same_length,
    check_sinks,
    check_values,
)
from headwise.core.map_picture import HTML_BINS, TEXT_BINS, as_html, as_text
from headwise.core.map_pieces import Piece, pieces_of
from headwise.core.masks import Mask
from headwise.core.shapes import check_positive


class AttentionMap:
    """``P = softmax(cap(scale * Q K^T) + bias)`` over the visible keys, for every query of every head.

    The shape is ``batch heads query key``; grouped queries are counted as query heads. Nothing of size
    query * key is ever held: each reading goes through blocks of queries, exactly, in float32 or better.
    ``sinks``, one learned logit for each head, take part in the softmax and are no key, so with them rows add
    up to less than 1. A query that sees no key has a row of zeros. A map is a record: it passes no gradient.

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
        sinks: Float[Tensor, " heads"] | None = None,
    ) -> None:
        check_inputs(q, k, k, mask=mask, bias=bias, softcap=softcap, dropout=0.0)
        self.q, self.k = q.detach(), k.detach()
        self.how = Scores(mask, bias, q.shape[-1] ** -0.5 if scale is None else scale, softcap)
        check_sinks(sinks, heads=q.shape[1])
        self.sinks = None if sinks is None else sinks.detach()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, query heads, queries, keys."""
        batch, heads, queries, _ = self.q.shape
        return batch, heads, queries, self.k.shape[2]

    def pieces(self, queries: Int[Tensor, " rows"] | None = None) -> Iterator[Piece]:
        """The map in blocks of whole rows, all of them or those of ``queries``.

        Any reading can be built on it. A pass is what takes time, so readings can share one.
        """
        return pieces_of(self.q, self.k, self.how, self.sinks, queries)

    def __matmul__(
        self,
        values: Float[
            Tensor,
            (
                batch  # heads key columns
            ),
        ],
    ) -> Float[Tensor, "batch heads query columns"]:
        """``P W``: each query's weighted average of the rows of ``values``."""
        batch, heads, queries, keys = self.shape
        check_batched(values, (batch, heads, keys), what="values")
        values = wide(values)
        found = [piece.weights @ values[:, :, piece.columns].to(piece.weights) for piece in self.pieces()]
        return torch.cat(found, dim=2) if found else values.new_zeros(batch, heads, queries, values.shape[-1])

    @property
    def T(self) -> Transposed:  # noqa: N802
        """``P^T``, for ``map.T @ values``."""
        return Transposed(self)

    def log_normalizer(self) -> Float[Tensor, "batch heads query"]:
        """``log sum_j exp(S_ij)`` of each query, sinks included; minus infinity where no key is seen."""
        return self._of_rows(lambda piece: piece.log_normalizer)

    def entropy(self) -> Float[Tensor, "batch heads query"]:
        """``- sum_j p_ij log p_ij`` in nats: 0 for one key, ``log n`` for n keys evenly."""
        return self._of_rows(lambda piece: torch.special.entr(piece.weights).sum(-1))

    def received(self) -> Float[Tensor, "batch heads key"]:
        """``sum_i p_ij``: how much attention each key gets from all queries together."""
        batch, _, queries, _ = self.shape
        return (self.T @ self.q.new_ones(batch, 1, queries, 1))[..., 0]

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
        batch, heads = self.shape[:2]
        rows, place = torch.unique(queries, return_inverse=True)
        found = wide(self.q).new_zeros(batch, heads, len(queries))
        done = 0
        for piece in self.pieces(rows):
            here = (place >= done) & (place < done + len(piece.rows))
            here &= (keys >= piece.columns.start) & (keys < piece.columns.stop)
            found[:, :, here] = piece.weights[:, :, place[here] - done, keys[here] - piece.columns.start]
            done += len(piece.rows)
        return found

    def rows(self, queries: Int[Tensor, " rows"]) -> Float[Tensor, "batch heads rows key"]:
        """Whole rows, dense."""
        check_indices(queries, self.shape[2], what="queries")
        batch, heads, _, keys = self.shape
        check_dense((batch, heads, len(queries), keys))
        found = wide(self.q).new_zeros(batch, heads, len(queries), keys)
        done = 0
        for piece in self.pieces(queries):
            found[:, :, done : done + len(piece.rows), piece.columns] = piece.weights
            done += len(piece.rows)
        return found

    def tile(self, queries: slice, keys: slice) -> Float[Tensor, "batch heads rows columns"]:
        """A rectangle at full resolution, dense: ``map.tile(slice(100, 160), slice(80, 160))``."""
        rows = torch.arange(self.shape[2], device=self.q.device)[queries]
        batch, heads, _, count = self.shape
        columns = torch.arange(count, device=self.q.device)[keys]
        check_dense((batch, heads, len(rows), len(columns)))
        found = wide(self.q).new_zeros(batch, heads, len(rows), len(columns))
        done = 0
        for piece in self.pieces(rows):
            inside = (columns >= piece.columns.start) & (columns < piece.columns.stop)
            stop = done + len(piece.rows)
            found[:, :, done:stop, inside] = piece.weights[..., columns[inside] - piece.columns.start]
            done = stop
        return found

    def dense(self) -> Float[Tensor, "batch heads query key"]:
        """The whole matrix, or HeadwiseError with the memory it would take where that is over 1 GiB."""
        return self.rows(torch.arange(self.shape[2], device=self.q.device))

    def mass(self, classes: Bool[Tensor, "classes key"]) -> Float[Tensor, "batch heads query classes"]:
        """How much each query gives to each class of keys: special tokens, a segment, one named token."""
        check_classes(classes, self.shape[3])
        return self @ classes.T[None, None].to(wide(self.q))

    def pool(self, bins: int = 64) -> Float[Tensor, "batch heads query_bins key_bins"]:
        """An overview: the mass that the average query of a bin of queries gives to each bin of keys."""
        check_positive(bins, who="AttentionMap.pool", what="bins")
        _, _, queries, keys = self.shape
        of_keys = _one_hot(keys, min(bins, keys), self.q)
        of_queries = _one_hot(queries, min(bins, queries), self.q)
        given = self @ of_keys[None, None]
        return of_queries.T @ given / of_queries.sum(0)[:, None]

    def distance(self) -> Distance:
        """How far each query looks, in tokens: mean, spread, and the mass by distance in doubling bins."""
        return distance_of(self.pieces(), self.shape)

    def top(
        self, k: int, queries: Int[Tensor, " rows"] | None = None
    ) -> tuple[Float[Tensor, "batch heads rows k"], Int[Tensor, "batch heads rows k"]]:
        """The k largest weights of each query and the keys they are on, the largest first."""
        check_positive(k, who="AttentionMap.top", what="k")
        k = min(k, self.shape[3])
        weights, keys = [], []
        for piece in self.pieces(queries):
            short = k - piece.weights.shape[-1]
            dense = torch.nn.functional.pad(piece.weights, (0, max(0, short)))
            found = dense.topk(k, dim=-1)
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
        check_values(v, output_weight, (batch, heads, self.k.shape[1], keys))
        of_heads = wide(output_weight.detach()).reshape(-1, heads, v.shape[3]).transpose(0, 1)
        spread = wide(v.detach()).repeat_interleave(heads // v.shape[1], dim=1)
        length = (spread @ of_heads.transpose(1, 2)).norm(dim=-1)
        bias = _with_key_bias(self.how.bias, length.clamp(min=torch.finfo(length.dtype).tiny).log())
        mask, scale, softcap = self.how.mask, self.how.scale, self.how.softcap
        return AttentionMap(self.q, self.k, mask=mask, bias=bias, scale=scale, softcap=softcap)

    def __repr__(self) -> str:
        batch, heads, queries, keys = self.shape
        mask = "" if self.how.mask is None else f", {self.how.mask}"
        return f"AttentionMap(batch {batch}, {heads} heads, {queries} queries, {keys} keys{mask})"

    def __str__(self) -> str:
        """A small picture: where the queries of the first heads look."""
        return as_text(repr(self), self.pool(TEXT_BINS)[0] if self.shape[0] else None)

    def _repr_html_(self) -> str:
        return as_html(repr(self), self.pool(HTML_BINS)[0] if self.shape[0] else None)

    def _of_rows(self, read: Callable[[Piece], Tensor]) -> Tensor:
        found = [read(piece) for piece in self.pieces()]
        return torch.cat(found, dim=2) if found else wide(self.q).new_zeros(self.shape[:3])


class Transposed:
    """``P^T`` of a map: what comes to each key from all queries.

    >>> x = torch.zeros(1, 1, 2, 4)
    >>> (AttentionMap(x, x).T @ torch.ones(1, 1, 2, 1))[0, 0, :, 0]
    tensor([1., 1.])
    """

    def __init__(self, of: AttentionMap) -> None:
        self.of = of

    def __matmul__(
        self,
        values: Float[
            Tensor,
            (
                batch  # heads query columns
            ),
        ],
    ) -> Float[Tensor, "batch heads key columns"]:
        """``P^T W``: the sum over queries of what each gives to a key, times its row of ``values``."""
        batch, heads, queries, keys = self.of.shape
        check_batched(values, (batch, heads, queries), what="values")
        total = wide(self.of.q).new_zeros(batch, heads, keys, values.shape[-1])
        for piece in self.of.pieces():
            part = wide(values)[:, :, piece.rows].to(piece.weights)
            total[:, :, piece.columns] += piece.weights.transpose(-1, -2) @ part
        return total


def _one_hot(length: int, bins: int, like: Tensor) -> Tensor:
    """``[length bins]``: 1 where a place belongs to a bin; bins are runs of nearly equal length."""
    bin_of_place = torch.arange(length, device=like.device) * bins // length
    return torch.nn.functional.one_hot(bin_of_place, bins).to(wide(like).dtype)


def _with_key_bias(bias: Tensor | BiasFunction | None, of_keys: Tensor) -> BiasFunction:
    def both(q: Tensor, k: Tensor, rows: slice | Tensor, columns: slice, visible: Tensor | None) -> Tensor:
        added = of_keys[:, :, None, columns].expand(-1, -1, q.shape[2], -1)
        if bias is None:
            return added
        own = (
            bias[:, :, rows][..., columns] if isinstance(bias, Tensor) else bias(q, k, rows, columns, visible)
        )
        return own + added

    return both
