"""Multi-head latent attention: keys and values of all heads from one short vector a token."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.core import HeadwiseError, Mask, attention
from headwise.core.shapes import described
from headwise.layers.cache.kv_cache import KVCache
from headwise.layers.cache.memory_cache import MemoryCache
from headwise.layers.cache.turn import Turn
from headwise.layers.layer_arguments import check_embeddings, check_options, check_sizes, token_positions
from headwise.layers.positions import PositionalEncoding, Rotary

_WHO = "MultiHeadLatentAttention"


class Latents(NamedTuple):
    """What a token leaves for later queries, the same for all heads: its latent vector and its turned key."""

    latent: Float[Tensor, "batch key kv_rank"]
    turned: Float[Tensor, "batch key rotary_dim"]


class MultiHeadLatentAttention(nn.Module):
    """Keys and values of every head are read from a latent of ``kv_rank`` numbers a token.

    With ``c = norm(x W_c)`` the latent of a token::

        q_h = [x W_q_h, R_p (x W_qr_h)]        through norm(x W_a) of query_rank numbers where that is given
        k_h = [c W_k_h, R_p (x W_kr)]          the turned part is one for all heads
        v_h = c W_v_h
        output = concat(attention(q_h, k_h, v_h)) W_o

    Scores are over ``sqrt(head_dim + rotary_dim)`` unless ``scale`` is given. DeepSeek-AI 2024, arXiv
    2405.04434, section 2.1; the same in DeepSeek-V3, arXiv 2412.19437, section 2.1.1.

    A cache stores ``kv_rank + rotary_dim`` numbers a token, whatever the number of heads: give
    ``cache=KVCache()``, or keep the ``Latents`` yourself::

        held = layer.compress(x, positions)                            # of the tokens so far
        output = layer(x[:, -1:], latents=held, positions=positions[-1:])

    With few queries the latents are never opened: ``W_k_h`` moves to the query, ``W_v_h`` behind the average,
    and the heads attend to the latents themselves. Both ways are the same sums in another order; the one with
    fewer products is taken.

    Args:
        model_dim: width of the input and of the output.
        heads: number of heads.
        kv_rank: width of the latent.
        query_rank: width of the query's own latent, None for none.
        head_dim: width of a head's key without the turned part.
        rotary_dim: width of the turned part.
        value_dim: width of a head's value and output, ``head_dim`` unless given.
        position: what turns the second part, ``Rotary(pairs="neighbours")`` unless given.
        mask: holds for every call; a call's own mask is combined with it.
        scale: what scores are multiplied by.
        bias: whether the first projections and the last have one; the middle ones never do.
        dropout: share of attention weights dropped in training.

    Raises HeadwiseError if a size or an option does not fit.

    >>> from headwise.core import Causal
    >>> layer = MultiHeadLatentAttention(64, 8, kv_rank=16, head_dim=8, rotary_dim=4, mask=Causal())
    >>> x = torch.randn(2, 10, 64)
    >>> layer(x).shape
    torch.Size([2, 10, 64])
    >>> from headwise.layers import KVCache
    >>> cache = KVCache()
    >>> steps = torch.cat([layer(token, cache=cache) for token in x.split(1, dim=1)], dim=1)
    >>> torch.allclose(steps, layer(x), atol=1e-5)
    True
    """

    def __init__(
        self,
        model_dim: int,
        heads: int,
        *,
        kv_rank: int,
        head_dim: int,
        rotary_dim: int,
        query_rank: int | None = None,
        value_dim: int | None = None,
        position: PositionalEncoding | None = None,
        mask: Mask | None = None,
        scale: float | None = None,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.value_dim = head_dim if value_dim is None else value_dim
        ranks = {} if query_rank is None else {"query_rank": query_rank}
        ranks |= {"kv_rank": kv_rank, "rotary_dim": rotary_dim, "value_dim": self.value_dim}
        check_sizes(ranks, model_dim=model_dim, heads=heads, head_dim=head_dim, who=_WHO)
        check_options(position=position, mask=mask, dropout=dropout, scale=scale, who=_WHO)
        _check_turns(position)
        self.model_dim, self.heads, self.kv_rank, self.query_rank = model_dim, heads, kv_rank, query_rank
        self.head_dim, self.rotary_dim, self.mask, self.dropout = head_dim, rotary_dim, mask, dropout
        self.position = Rotary(pairs="neighbours") if position is None else position
        self.scale = (head_dim + rotary_dim) ** -0.5 if scale is None else float(scale)
        width = heads * (head_dim + rotary_dim)
        if query_rank is None:
            self.query: nn.Module = nn.Linear(model_dim, width, bias=False)
        else:
            narrow = nn.Linear(model_dim, query_rank, bias=bias)
            norm, wide = nn.RMSNorm(query_rank, eps=1e-6), nn.Linear(query_rank, width, bias=False)
            self.query = nn.Sequential(narrow, norm, wide)
        self.compression = nn.Linear(model_dim, kv_rank + rotary_dim, bias=bias)
        self.norm = nn.RMSNorm(kv_rank, eps=1e-6)
        self.opening = nn.Linear(kv_rank, heads * (head_dim + self.value_dim), bias=False)
        self.output = nn.Linear(heads * self.value_dim, model_dim, bias=bias)

    def forward(
        self,
        x: Float[Tensor, "batch query model_dim"],
        *,
        mask: Mask | None = None,
        positions: Int[Tensor, "*batch query"] | None = None,
        latents: Latents | None = None,
        cache: KVCache | None = None,
    ) -> Float[Tensor, "batch query model_dim"]:
        """Attend from ``x`` to the tokens of ``latents``, of which ``x`` are the last, or to ``x`` itself.

        With a ``cache`` the tokens come after those that it holds, as in ``MultiHeadAttention``.
        """
        both = mask if self.mask is None else self.mask if mask is None else self.mask & mask
        check_embeddings(x, self.model_dim, self.output.weight, what="x", who=_WHO)
        if cache is not None:
            _check_cache(cache, latents)
            turn = Turn(cache, self.position, x, memory=None, mask=both, heads=self.heads, who=_WHO)
            positions = turn.positions(positions)
        if positions is None and latents is not None:  # the last of them
            count = latents.latent.shape[1]
            positions = torch.arange(count - x.shape[1], count, device=x.device)
        at = token_positions(x, positions, self.position, who=_WHO)
        held = torch.cat(self.compress(x, at) if latents is None else latents, dim=-1)
        if cache is not None:
            k = held[:, None]  # its values are part of it, so none are stored
            cached = turn.store(k, k[..., :0], at, at)
            held, both = cached.k[:, 0], cached.mask(turn.mask)
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        plain, turning = q.split((self.head_dim, self.rotary_dim), dim=-1)
        turned, _ = self._turned(turning, at)
        attend = self._closed if self._closed_is_cheaper(x.shape[1], held.shape[1]) else self._opened
        heads = attend(plain, turned, held, both)
        mixed: Tensor = self.output(heads.transpose(1, 2).flatten(-2))
        return mixed

    def compress(
        self,
        x: Float[Tensor, "batch key model_dim"],
        positions: Int[Tensor, "*batch key"] | None = None,
    ) -> Latents:
        """What tokens leave for later queries; positions count from 0 unless given."""
        check_embeddings(x, self.model_dim, self.output.weight, what="x", who=_WHO)
        latent, turning = self.compression(x).split((self.kv_rank, self.rotary_dim), dim=-1)
        _, turned = self._turned(turning[:, None], token_positions(x, positions, self.position, who=_WHO))
        return Latents(self.norm(latent), turned[:, 0])

    def _opened(self, plain: Tensor, turned: Tensor, held: Tensor, mask: Mask | None) -> Tensor:
        """Every head's own keys and values."""
        latent, turned_keys = held[..., : self.kv_rank], held[..., self.kv_rank :]
        opened = self.opening(latent).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = opened.split((self.head_dim, self.value_dim), dim=-1)
        k = torch.cat((k, turned_keys[:, None].expand(-1, self.heads, -1, -1)), dim=-1)
        return self._attention(torch.cat((plain, turned), dim=-1), k, v, mask)

    def _closed(self, plain: Tensor, turned: Tensor, held: Tensor, mask: Mask | None) -> Tensor:
        """``q . (W c) = (W^T q) . c``: all heads attend to the latents, one key and value a token."""
        of_heads = self.opening.weight.view(self.heads, -1, self.kv_rank)
        of_keys, of_values = of_heads[:, : self.head_dim], of_heads[:, self.head_dim :]
        q = torch.cat((plain @ of_keys, turned), dim=-1)
        k = held[:, None]
        return self._attention(q, k, k[..., : self.kv_rank], mask) @ of_values.mT

    def _attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None) -> Tensor:
        dropout = self.dropout if self.training else 0.0
        return attention(q, k, v, mask=mask, scale=self.scale, dropout=dropout)

    def _turned(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """What stands at these positions, turned as queries are and as keys are."""
        return self.position.rotate(x, x, positions, positions)

    def _closed_is_cheaper(self, queries: int, keys: int) -> bool:
        """By the products of each way: opening is done for every key, moving for every query."""
        opening = self.kv_rank * (self.head_dim + self.value_dim)
        opened = keys * opening + queries * keys * (self.head_dim + self.rotary_dim + self.value_dim)
        return queries * opening + queries * keys * (2 * self.kv_rank + self.rotary_dim) < opened

    def extra_repr(self) -> str:
        mask = "" if self.mask is None else f", mask={self.mask}"
        return f"model_dim={self.model_dim}, heads={self.heads}, kv_rank={self.kv_rank}{mask}"


def _check_turns(position: PositionalEncoding | None) -> None:
    """Refuse an encoding that acts elsewhere than on queries and keys, which would go unused."""
    if position is None or set(position.acts_on) <= {"queries and keys"}:
        return
    raise HeadwiseError(
        who=_WHO,
        what="position",
        expected="an encoding that turns queries and keys",
        got=f"{type(position).__name__}, which acts on the {' and the '.join(position.acts_on)}",
        why="Only the part of rotary_dim numbers knows where a token stands",
        do="Pass a Rotary; what acts on embeddings belongs before the layer",
    )


def _check_cache(cache: object, latents: Latents | None) -> None:
    """Refuse a cache beside latents, which say the same, and one for a memory, which no call here has."""
    if latents is None and not isinstance(cache, MemoryCache):
        return
    raise HeadwiseError(
        who=_WHO,
        what="cache",
        expected="a KVCache" if latents is None else "None where latents are given",
        got=described(cache),
        why="This layer attends to its own tokens"
        if latents is None
        else "Both say which tokens came before",
        do="Pass cache=KVCache() and the same one at each step" if latents is None else "Pass one of the two",
    )
