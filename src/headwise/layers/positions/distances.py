"""What encodings of the scores share: differences of positions, tables looked up, checks."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError


def differences(
    query_positions: Int[Tensor, "*batch query"], key_positions: Int[Tensor, "*batch key"]
) -> Int[Tensor, "#batch query key"]:
    """``p_i - p_j`` of query i and key j, as whole numbers: above 0 where the key comes before the query.

    >>> differences(torch.tensor([2]), torch.arange(4))
    tensor([[[ 2,  1,  0, -1]]])
    """
    difference = query_positions[..., :, None] - key_positions[..., None, :]
    return difference if difference.dim() == 3 else difference[None]


def grid_differences(
    query_positions: Int[Tensor, "*batch query 2"], key_positions: Int[Tensor, "*batch key 2"]
) -> Int[Tensor, "#batch query key 2"]:
    """The same by rows and by columns, for positions that are a row and a column each.

    >>> grid_differences(torch.tensor([[1, 4]]), torch.tensor([[0, 4], [1, 6]]))
    tensor([[[[ 1,  0],
              [ 0, -2]]]])
    """
    difference = query_positions[..., :, None, :] - key_positions[..., None, :, :]
    return difference if difference.dim() == 4 else difference[None]


def looked_up(
    table: Float[Tensor, "rows heads"], index: Int[Tensor, "batch query key"], dtype: torch.dtype
) -> Float[Tensor, "batch heads query key"]:
    """The row of the table for each query and key, in that dtype or a wider one.

    >>> looked_up(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[[0, 1]]]), torch.float32)
    tensor([[[[1., 3.]],
    <BLANKLINE>
             [[2., 4.]]]])
    """
    wide = table.to(torch.promote_types(table.dtype, dtype)).t().contiguous()
    # forward and backward take a third of the time of table[index]
    values = wide.index_select(1, index.flatten())
    return values.reshape(-1, *index.shape).transpose(0, 1)


def check_heads(q: Float[Tensor, "batch heads query head_dim"], heads: int, *, who: str) -> None:
    """Refuse queries of another number of heads than the encoding was built for.

    >>> check_heads(torch.zeros(1, 8, 5, 64), 8, who="ALiBi")
    """
    if q.shape[1] == heads:
        return
    raise HeadwiseError(
        who=who,
        what="heads",
        expected=f"{q.shape[1]}, the number of query heads",
        got=str(heads),
        why="Each head adds numbers of its own to its scores",
        do=f"Build {who} with heads={q.shape[1]}",
    )


def can_be_read(values: Int[Tensor, "*shape"]) -> bool:
    """Whether there are numbers to look at: not while compiling, not on meta, not in an empty tensor.

    >>> can_be_read(torch.arange(5)), can_be_read(torch.arange(5, device="meta"))
    (True, False)
    """
    return not torch.compiler.is_compiling() and not values.is_meta and values.numel() > 0


def check_range(
    values: Int[Tensor, "*shape"], low: int, high: int, *, who: str, what: str, why: str, do: str
) -> None:
    """Refuse whole numbers below ``low`` or above ``high``, where they can be read: not while compiling.

    >>> check_range(torch.arange(5), 0, 4, who="Learned", what="positions", why="There are 5 rows", do="Stop")
    """
    if not can_be_read(values):
        return
    least, most = values.aminmax()
    if least >= low and most <= high:
        return
    raise HeadwiseError(
        who=who,
        what=what,
        expected=f"from {low} to {high}",
        got=f"{int(least)} to {int(most)}",
        why=why,
        do=do,
    )
