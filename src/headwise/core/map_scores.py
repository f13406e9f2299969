"""The scores of a map's rows, one block after another, each in the memory of the one before."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.autocast import without_autocast
from headwise.core.block import Block, Scores
from headwise.core.blocks import capped_and_biased, wide

_ROWS_TO_TRANSPOSE = 1024  # of which the product gains more than it takes to copy the keys
_EDGE = 64  # columns begin and end at multiples of it, which readings that go by runs of keys like


class Memory:
    """Memory for one tensor after another: fresh pages take the system longer than filling them.

    >>> memory = Memory(torch.empty(0), 6)
    >>> memory.of((2, 3)).shape, memory.of((1, 4)).shape
    (torch.Size([2, 3]), torch.Size([1, 4]))
    """

    def __init__(self, like: Tensor, most: int) -> None:
        self.held = like.new_empty(most)  # pages that are never written to are never made

    def of(self, shape: tuple[int, ...]) -> Tensor:
        """A tensor of that shape, whose numbers are good until the next is asked for."""
        return self.held[: math.prod(shape)].view(shape)


class MapScores:
    """``cap(scale * Q K^T) + bias`` of some rows over the keys they reach; good until the next is asked for.

    ``rows`` will be asked for in all, and at most ``most`` scores at once. A hidden score is the
    lowest finite number, so that a row may hold nothing else.

    >>> x = torch.ones(1, 1, 3, 4)
    >>> made = MapScores(x, x, Scores(None, None, 0.5, None), rows=torch.tensor([0, 2]), most=6)
    >>> block, scores = made.of(torch.tensor([0, 2]))
    >>> block.columns, scores
    (slice(0, 3, None), tensor([[[[2., 2., 2.],
              [2., 2., 2.]]]]))
    """

    def __init__(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        how: Scores,
        rows: Int[Tensor, " rows"],
        most: int,
    ) -> None:
        self.q, self.k, self.how = q, k, how
        self.first_slot = k.shape[2] - q.shape[2]
        self.wide_keys = wide(k).mT.flatten(0, 1)
        if len(rows) >= _ROWS_TO_TRANSPOSE:
            self.wide_keys = self.wide_keys.contiguous()
        self.memory = Memory(self.wide_keys, most)
        asked = q if len(rows) >= q.shape[2] else q.index_select(2, rows)
        self.bounded = how.bias is None and _is_bounded(asked, k, how)

    def of(self, rows: Int[Tensor, " rows"]) -> tuple[Block, Float[Tensor, "batch heads rows columns"]]:
        """The scores of those rows, at least one, and which part of the matrix they are."""
        block, q = self._block(rows)
        visible = block.visible(self.how.mask, self.q.device)
        bias = block.bias(q, self.k[:, :, block.columns], self.how, visible)
        scores = capped_and_biased(self._product(q, block.columns), self.how.softcap, bias)
        _hide(scores, visible, bounded=self.bounded)
        return block, scores

    def in_ranges(
        self, rows: Int[Tensor, " rows"]
    ) -> tuple[Block, Float[Tensor, "batch heads rows columns"], tuple[Tensor, Tensor]]:
        """The same, and each row's first key and the one after its last: the scores of others are not hidden.

        To know where a row begins and ends takes a small part of the time that hiding takes.
        """
        keys, mask = self.k.shape[2], self.how.mask
        all_keys = torch.zeros_like(rows), torch.full_like(rows, keys)
        ranges = all_keys if mask is None else mask.ranges(rows + self.first_slot, keys)
        if ranges is None or self.how.bias is not None:
            return *self.of(rows), all_keys
        starts, stops = (end.long().contiguous() for end in ranges)
        block, q = self._block(rows)
        scores = capped_and_biased(self._product(q, block.columns), self.how.softcap, None)
        return block, scores, (starts, stops)

    def _block(self, rows: Tensor) -> tuple[Block, Tensor]:
        first, last = int(rows[0]), int(rows[-1])
        run = last - first == len(rows) - 1 and is_run(rows)
        if not run:
            first, last = (int(end) for end in rows.aminmax())
        reach = self.reach(first, last)
        block = Block((first, last + 1) if run else rows, (reach.start, reach.stop), self.first_slot)
        # to index by numbers would be many times slower than index_select
        return block, self.q[:, :, block.rows] if run else self.q.index_select(2, rows)

    def reach(self, first: int, last: int) -> slice:
        """The keys that rows from ``first`` to ``last`` can see at most, and a few more."""
        keys = self.k.shape[2]
        if self.how.mask is None:
            return slice(0, keys)
        start, stop = self.how.mask.reach(self.first_slot + first, self.first_slot + last, keys)
        if start < stop:
            start, stop = start // _EDGE * _EDGE, min(-(-stop // _EDGE) * _EDGE, keys)
        return slice(start, stop)

    def _product(self, q: Tensor, columns: slice) -> Tensor:
        batch, heads, rows, inner = q.shape
        matrices = len(self.wide_keys)
        shared = batch * heads * rows // max(1, matrices)  # rows of all the heads that share keys
        grouped = (wide(q) * self.how.scale).reshape(matrices, shared, inner)
        product = self.memory.of((matrices, shared, columns.stop - columns.start))
        with without_autocast(q.device):
            torch.bmm(grouped, self.wide_keys[..., columns], out=product)
        return product.view(batch, heads, rows, columns.stop - columns.start)


def is_run(rows: Int[Tensor, " rows"]) -> bool:
    """Whether each row is the one after that before it.

    >>> is_run(torch.tensor([3, 4, 5])), is_run(torch.tensor([3, 5]))
    (True, False)
    """
    return bool((rows.diff() == 1).all())


def _is_bounded(q: Tensor, k: Tensor, how: Scores) -> bool:
    """Whether no product overflows, nor the lowest number less a product: false for NaN and infinity too.

    The softcap, by which scores are divided, must be a normal number of float32 for that.
    """
    if not (q.numel() and k.numel()):
        return True
    largest = [max(abs(float(end)) for end in torch.aminmax(x)) for x in (q, k)]
    kind = torch.finfo(torch.float32)
    scaled = abs(how.scale) * largest[0]
    softcap = 1.0 if how.softcap is None else how.softcap
    fits = kind.tiny < softcap < kind.max * kind.eps / 4 > scaled
    return fits and q.shape[-1] * scaled * largest[1] < kind.max * kind.eps / 4


def _hide(scores: Tensor, visible: Tensor | None, *, bounded: bool) -> None:
    lowest = torch.finfo(scores.dtype).min
    if not bounded:
        scores.clamp_(min=lowest)  # a bias may hide by minus infinity
    if visible is None:
        return
    seen_by_all = visible.flatten(0, -2).view(torch.uint8).amin(0)  # many times faster than `all`
    columns = (seen_by_all == 0).nonzero()  # in a causal block they are few
    if not len(columns):
        return
    some = slice(int(columns[0]), int(columns[-1]) + 1)
    visible, scores = visible[..., some], scores[..., some]
    if bounded:  # a minimum is many times faster than to fill, but would keep NaN
        most = torch.where(visible, scores.new_tensor(torch.inf), lowest)
        torch.minimum(scores, most, out=scores)
    else:
        scores.masked_fill_(~visible, lowest)
