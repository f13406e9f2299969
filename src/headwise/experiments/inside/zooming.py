"""Opens a window of a recorded head at full resolution."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.experiments.inside.window import Pair, Window
from headwise.look import Head, load
from headwise.look.removal.head import HeadLike, as_heads

_WIDTH = 64
_MOST = 2**20  # weights, as text some 20 MB
_STRONGEST = 10
_RANGE = re.compile(r"(\d{0,15}):(\d{0,15})")


def zoom(
    folder: str | Path,
    head: HeadLike,
    *,
    queries: str | slice | None = None,
    keys: str | slice | None = None,
    text: int = 0,
) -> Window:
    """The weights between some queries and some keys of one head in a recording that ``inspect`` saved.

    ``queries`` and ``keys`` are ``100:160`` or slices; without, the first 64, and the keys as the queries.
    ``text`` is the number of the text, where the recording has several. Only that head's queries and keys are
    read, and only those rows are computed.

    Raises HeadwiseError if there is no whole recording, if it kept nothing, or if there is no such head or
    window.
    """
    recording = load(folder)
    chosen = _one(head)
    number = recording.names.index(recording.layer(chosen.layer).name)
    layer = recording.layer(number)
    attention = recording.map(number, head=chosen.head, document=text)
    _, _, length, reach = attention.shape
    rows = _range(queries, length, "queries", slice(0, min(_WIDTH, length)))
    columns = _range(keys, reach, "keys", rows if rows.stop <= reach else slice(0, min(_WIDTH, reach)))
    _check_size(rows, columns)
    places = torch.arange(rows.start, rows.stop)
    weights = attention.tile(rows, columns)[0, 0].double()
    sink = _sink(weights)
    tokens = recording.tokens[text] if text < len(recording.tokens) else []
    return Window(
        recording=str(folder),
        model=recording.coverage.model,
        layer=number,
        module=layer.name,
        head=chosen.head,
        kv_head=chosen.head * layer.kv_heads // layer.heads,
        heads=layer.heads,
        kv_heads=layer.kv_heads,
        text=text,
        length=length,
        first_query=rows.start,
        first_key=columns.start,
        query_tokens=tokens[rows] if len(tokens) == length else [],
        key_tokens=tokens[columns] if len(tokens) == reach else [],
        weights=weights.tolist(),
        entropy=attention.statistics(queries=places).entropy[0, 0].double().tolist(),
        inside=weights.sum(-1).tolist(),
        left_out=None if sink is None else columns.start + sink,
        strongest=_strongest(weights, sink, rows, columns, tokens if len(tokens) == length == reach else []),
    )


def _one(head: HeadLike) -> Head:
    found = as_heads(head)
    if len(found) != 1:
        raise _refused("the head", "one head", f"{len(found)} heads", "A window shows one map")
    return found[0]


def _range(asked: str | slice | None, length: int, what: str, otherwise: slice) -> slice:
    if asked is None:
        return otherwise
    if isinstance(asked, str):
        match = _RANGE.fullmatch(asked.strip())
        if match is None:
            raise _refused(
                what, "two numbers as in 100:160", repr(asked), "From the first to before the last"
            )
        asked = slice(*(int(part) if part else None for part in match.groups()))
    start = 0 if asked.start is None else asked.start
    stop = length if asked.stop is None else asked.stop
    if not 0 <= start < stop <= length or asked.step not in (None, 1):
        why = f"The text has {length:,} tokens, counted from 0"
        raise _refused(what, f"a range within 0:{length}", f"{start}:{stop}", why)
    return slice(start, stop)


def _check_size(rows: slice, columns: slice) -> None:
    count = (rows.stop - rows.start) * (columns.stop - columns.start)
    if count > _MOST:
        why = "A larger one is not read but counted, as inspect does"
        raise _refused("the window", f"at most {_MOST:,} weights", f"{count:,}", why)


def _sink(weights: Tensor) -> int | None:
    """The key that gets more than half of all attention in the window, if one does."""
    of_keys = weights.sum(0)
    largest = int(of_keys.argmax())
    return largest if len(of_keys) > 1 and of_keys[largest] > of_keys.sum() / 2 else None


def _strongest(
    weights: Tensor, sink: int | None, rows: slice, columns: slice, tokens: list[str]
) -> list[Pair]:
    if sink is not None:
        weights = weights.clone()
        weights[:, sink] = 0.0
    values, places = weights.flatten().topk(min(_STRONGEST, weights.numel()))
    pairs = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        query, key = rows.start + place // weights.shape[1], columns.start + place % weights.shape[1]
        of_query, of_key = (tokens[query], tokens[key]) if tokens else ("", "")
        if value > 0:
            pairs.append(Pair(query, key, of_query, of_key, value))
    return pairs


def _refused(what: str, expected: str, got: str, why: str) -> HeadwiseError:
    return HeadwiseError(
        who="zoom",
        what=what,
        expected=expected,
        got=got,
        why=why,
        do="For example: headwise zoom DIR --head 3.5 --queries 0:48 --keys 0:48",
    )
