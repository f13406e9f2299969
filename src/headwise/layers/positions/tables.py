"""Tables of vectors read by the distance between a query and a key, without a vector for each pair."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.layers.positions.distances import can_be_read


def read(
    scores: Float[Tensor, "batch heads query entries"], entry: Int[Tensor, "rows query key"]
) -> Float[Tensor, "batch heads query key"]:
    """``scores[.., i, entry[i, j]]``: a score for each pair from one for each entry of a table.

    >>> read(torch.tensor([[[[0.0, 10.0, 20.0]]]]), torch.tensor([[[2, 2, 0, 1]]]))
    tensor([[[[20., 20.,  0., 10.]]]])
    """
    return scores.gather(-1, _for_heads(entry, scores))


def collected(
    weights: Float[Tensor, "batch heads query key"], entry: Int[Tensor, "rows query key"], entries: int
) -> Float[Tensor, "batch heads query entries"]:
    """How much of each query's weight lies on each entry of a table; ``read`` the other way round.

    >>> collected(torch.tensor([[[[0.5, 0.25, 0.125, 0.125]]]]), torch.tensor([[[2, 2, 0, 1]]]), 3)
    tensor([[[[0.1250, 0.1250, 0.7500]]]])
    """
    empty = weights.new_zeros(*weights.shape[:3], entries)
    return empty.scatter_add(-1, _for_heads(entry, weights), weights)


def entries_read(entry: Int[Tensor, "rows query key"], entries: int) -> tuple[int, int]:
    """The first entry that is read and the one after the last; all ``entries`` where numbers are not known.

    >>> entries_read(torch.tensor([[[2, 2, 1]]]), 5)
    (1, 3)
    """
    if not can_be_read(entry):
        return 0, entries
    low, high = entry.aminmax()
    return int(low), int(high) + 1


def check_width(of: Tensor, expected: int, *, who: str, what: str, why: str) -> None:
    """Refuse queries or values of another width than the table's.

    >>> check_width(torch.zeros(1, 2, 5, 8), 8, who="Shaw", what="head_dim", why="A table holds such vectors")
    """
    if of.shape[-1] == expected:
        return
    raise HeadwiseError(
        who=who,
        what=what,
        expected=f"{of.shape[-1]}, as wide as what the layer gives it",
        got=str(expected),
        why=why,
        do=f"Build {who} with {what}={of.shape[-1]}",
    )


def _for_heads(entry: Tensor, like: Tensor) -> Tensor:
    return entry[:, None].expand(*like.shape[:3], entry.shape[-1])
