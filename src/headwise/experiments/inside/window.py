"""A window of one head's attention map: every weight in it, and what its rows do outside of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwise.experiments.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


@dataclass(frozen=True)
class Pair:
    """A query, a key, and the weight between them; tokens are empty where the recording has none."""

    query: int
    key: int
    query_token: str
    key_token: str
    weight: float


@dataclass(frozen=True)
class Window(Result):
    """The weights of one head between some queries and some keys, exactly as the model had them.

    ``weights[i][j]`` is from query ``first_query + i`` to key ``first_key + j``. ``entropy`` (nats) and
    ``inside``, the share of its attention that falls into the window, are of each whole row. ``strongest``
    are the pairs of the largest weights; where one key gets more than half of all attention in the window it
    is ``left_out`` there. ``text`` is the number of the text in the recording.
    """

    recording: str
    model: str
    layer: int
    module: str
    head: int
    kv_head: int
    heads: int
    kv_heads: int
    text: int
    length: int
    first_query: int
    first_key: int
    query_tokens: list[str]
    key_tokens: list[str]
    weights: list[list[float]]
    entropy: list[float]
    inside: list[float]
    left_out: int | None
    strongest: list[Pair]

    def __rich__(self) -> RenderableType:
        from headwise.experiments.inside.window_view import view

        return view(self)

    def figure(self) -> Figure:
        from headwise.experiments.inside.window_figure import draw

        return draw(self)
