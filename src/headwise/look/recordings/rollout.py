"""Attention rollout: which input tokens a token of the last layer draws on, through all layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core import AttentionMap, HeadwiseError
from headwise.look.recordings.recording import Recording


def rollout(
    recording: Recording,
    token: int,
    *,
    layers: Sequence[int | str] | None = None,
    document: int = 0,
) -> Float[Tensor, "layers key"]:
    """``r <- r (P + I) / 2`` from the last layer down to the first, with P the mean over a layer's heads.

    ``r`` begins as 1 on ``token``, counted from 0, or from the end if negative. Row l is what the token draws
    on in the input of layer l, so row 0 says how much on each token of the text; each row adds up to 1. Only
    rows of P with weight in ``r`` are read, never a matrix. It says where attention could carry something
    from, not what was carried: values and all other layers are left out.

    ``layers`` are those of one stack, by number or name; all of the recording if not given. Queries and keys
    must have been kept. A row that adds up to less than 1, because of a sink, is scaled with its residual.

    Abnar and Zuidema 2020, arXiv 2005.00928, eq. (1). Raises HeadwiseError if there is no such token, layer
    or text, if nothing was kept, or if a layer is not self-attention.

    >>> from headwise.look import InMemory, record
    >>> layer = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = torch.randn(1, 4, 8)
    >>> with record(layer, keep=InMemory()) as recording:
    ...     output, _ = layer(x, x, x)
    >>> rollout(recording, token=-1).shape, rollout(recording, token=-1).sum(-1).round(decimals=6)
    (torch.Size([1, 4]), tensor([1.], dtype=torch.float64))
    """
    names = [recording.layer(layer).name for layer in (recording.names if layers is None else layers)]
    if not names:
        raise HeadwiseError(
            who="rollout",
            what="layers",
            expected="at least one",
            got="none",
            why="Without a layer nothing is passed on",
            do="Leave layers out for all of them",
        )
    share: Tensor | None = None
    shares = []
    for name in reversed(names):
        p = recording.map(name, document=document)
        _, _, queries, keys = p.shape
        if queries != keys or (share is not None and len(share) != keys):
            raise HeadwiseError(
                who="rollout",
                what=f"layer {name or 'of the model'}",
                expected=f"self-attention over {keys if share is None else len(share)} tokens",
                got=f"{queries} queries and {keys} keys",
                why="Shares can only be passed on between the same tokens",
                do="Name the layers of one stack of self-attention with layers=",
            )
        share = _start(token, keys) if share is None else share
        share = _through(p, share)
        shares.append(share)
    return torch.stack(shares[::-1])


def _start(token: int, length: int) -> Tensor:
    if not -length <= token < length:
        raise HeadwiseError(
            who="rollout",
            what="the token",
            expected=f"{-length} to {length - 1}",
            got=str(token),
            why=f"The text has {length} tokens",
            do="Count from 0, or from the end with -1 for the last",
        )
    start = torch.zeros(length, dtype=torch.float64)
    start[token] = 1.0
    return start


def _through(p: AttentionMap, share: Tensor) -> Tensor:
    rows = share.nonzero()[:, 0]
    passed = torch.zeros_like(share)
    for piece in p.pieces(rows):
        part = share[piece.rows] / (1 + piece.mass[0].double().mean(0))
        passed[piece.rows] += part
        passed[piece.columns] += torch.einsum("hij,i->j", piece.weights[0].double(), part) / p.shape[1]
    return passed
