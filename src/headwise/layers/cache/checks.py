"""What a cache refuses to store or to do."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_floating, described, is_one_of


def check_bits(bits: object, *, who: str) -> None:
    """Refuse any number of bits but eight.

    >>> check_bits(8, who="KVCache")
    """
    if bits in (None, 8):
        return
    raise HeadwiseError(
        who=who,
        what="bits",
        expected="8, or None to store keys as they come",
        got=repr(bits),
        why="Whole numbers of other widths are not built",
        do="Pass bits=8 or leave it out",
    )


def check_same_bits(bits: int | None, others: int | None) -> None:
    """Refuse to join numbers with codes.

    >>> check_same_bits(8, 8)
    """
    if bits == others:
        return
    raise HeadwiseError(
        who="join",
        what="bits",
        expected=f"{others}, as in the first cache",
        got=str(bits),
        why="One holds keys and the other codes of them",
        do="Build all of them with the same bits",
    )


def check_keys(k: Tensor, v: Tensor, *, who: str) -> None:
    """Refuse keys and values that are not one of each for each token.

    >>> check_keys(torch.zeros(2, 4, 5, 8), torch.zeros(2, 4, 5, 8), who="KVCache")
    """
    do = "Split heads first: x.unflatten(-1, (kv_heads, head_dim)).transpose(1, 2)"
    check_floating(k, "batch kv_heads key head_dim", who=who, what="k", do=do)
    check_floating(v, "batch kv_heads key value_dim", who=who, what="v", do=do)
    if v.shape[:3] == k.shape[:3] and v.dtype == k.dtype:
        return
    raise HeadwiseError(
        who=who,
        what="v",
        expected=f"{described(k).split(' ')[0]} [{', '.join(map(str, k.shape[:3]))}, value_dim]",
        got=described(v),
        why="Each key carries one value",
        do="Make keys and values from the same tokens",
    )


def check_no_gradient(k: Tensor, v: Tensor, *, who: str) -> None:
    """Refuse keys and values whose gradient would be lost.

    >>> check_no_gradient(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2), who="KVCache(bits=8)")
    """
    if not (k.requires_grad or v.requires_grad):
        return
    raise HeadwiseError(
        who=who,
        what="keys and values",
        expected="without a gradient",
        got="some that require one",
        why="What is stored in whole numbers or written in place passes none on",
        do="Run under torch.no_grad(), or use KVCache() in training",
    )


def check_continues(
    new: dict[str, Tensor], held: dict[str, Tensor], dtypes: tuple[torch.dtype, torch.dtype], *, who: str
) -> None:
    """Refuse tokens that differ from those held in rows, heads, width, device or ``dtypes`` (new, held).

    >>> k = torch.zeros(2, 4, 5, 8)
    >>> check_continues({"k": k[:, :, :1]}, {"k": k}, (k.dtype, k.dtype), who="KVCache")
    """
    for name in ("k", "v", "features"):
        x, old = new.get(name), held.get(name)
        if x is None and old is None:
            continue
        same = x is not None and old is not None and _alike(x, old)
        if same and (name == "features" or dtypes[0] == dtypes[1]):
            continue
        raise HeadwiseError(
            who=who,
            what=f"{name} of the next tokens",
            expected="None as before" if old is None else _described(old, dtypes[1]),
            got="None" if x is None else _described(x, dtypes[0]),
            why="A cache belongs to one layer and to the rows of one batch",
            do="Use one for each layer and batch, and clear() it before another; reorder and to convert it",
        )


def _alike(x: Tensor, old: Tensor) -> bool:
    return x.shape[:2] == old.shape[:2] and x.shape[3:] == old.shape[3:] and x.device == old.device


def _described(x: Tensor, dtype: torch.dtype) -> str:
    rows, heads, _, *width = x.shape
    sizes = ", ".join(map(str, (rows, heads, "length", *width)))
    return f"{str(dtype).removeprefix('torch.')} [{sizes}] on {x.device}"


def check_keep(keep: object, *, batch: int, length: int, who: str) -> None:
    """Refuse anything but one True or False for each new token.

    >>> check_keep(torch.ones(2, 5, dtype=torch.bool), batch=2, length=5, who="KVCache")
    """
    shapes = (1, length), (batch, length)
    if isinstance(keep, Tensor) and keep.dtype == torch.bool and is_one_of(keep.shape, *shapes):
        return
    raise HeadwiseError(
        who=who,
        what="keep",
        expected=f"a boolean tensor [{batch}, {length}]",
        got=described(keep),
        why="It says of each new token whether it is real",
        do="Pass tokens != pad_id for the new tokens",
    )


def check_joined(caches: object, each_grows: list[bool]) -> None:
    """Refuse to join nothing, empty caches, and those that do not grow.

    >>> check_joined("two caches", [True, True])
    """
    if each_grows and all(each_grows):
        return
    raise HeadwiseError(
        who="KVCache",
        what="the caches to join",
        expected="KVCaches that hold a token each",
        got=repr(caches),
        why="Rings and fixed memory cannot be padded on the left",
        do="Fill a KVCache for each request and join those",
    )


def check_rows(rows: object, *, who: str) -> None:
    """Refuse anything but a list of row numbers.

    >>> check_rows(torch.tensor([0, 0, 1]), who="KVCache")
    """
    if isinstance(rows, Tensor) and rows.dim() == 1 and rows.dtype in (torch.int64, torch.int32):
        return
    raise HeadwiseError(
        who=who,
        what="rows",
        expected="an integer tensor [rows]",
        got=described(rows),
        why="Row i becomes what row rows[i] was",
        do="Pass torch.tensor([0, 0, 2]) to double the first row and drop the second",
    )


def check_length(length: object, shortest: int, longest: int, *, who: str) -> None:
    """Refuse to go back to a length that was never reached, or whose keys are gone.

    >>> check_length(3, 0, 5, who="KVCache")
    """
    if isinstance(length, int) and (length == 0 or shortest <= length <= longest):
        return
    raise HeadwiseError(
        who=who,
        what="length",
        expected=f"0, or from {shortest} to {longest}",
        got=repr(length),
        why="A cache goes back to a length it had, while it still holds the keys that the next token sees",
        do="Give a RingCache more spare slots, or start again with clear()",
    )
