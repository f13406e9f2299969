"""Multimodal rotary (M-RoPE): pairs shared out among time, row and column, so that text stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.angles import waves, wide_positions
from headwise.layers.positions.pairs import Pairs
from headwise.layers.positions.scaled import ScaledTurning
from headwise.layers.positions.scaling.scaling import FrequencyScaling
from headwise.layers.positions.turning import Length, Rotation, wide_dtype


class MultimodalRotary(ScaledTurning):
    """``Rotary`` whose pair i reads the position on one of several axes: time, row and column.

    ``sections`` says how many pairs each axis has. They lie in runs, ``ttt.hhh.www``, or one by one,
    ``thwthw..``, for as long as each axis has some left, the rest being time's ("interleaved"). Where all
    three positions are equal, as in text, it is ``Rotary``. Wang et al. 2024, arXiv 2409.12191, section 2.1
    (Qwen2-VL, in runs); Qwen3-VL interleaves.

    Positions are integers ``[length axes]`` or ``[batch length axes]``; ``multimodal_positions`` makes them.
    A layer that is given none takes the tokens for text. Scaling and length are as in ``Rotary``. Raises
    HeadwiseError if the sections do not add up to the pairs of a head.

    >>> x = torch.ones(1, 1, 1, 6)
    >>> rotary = MultimodalRotary((1, 1, 1), base=1.0)
    >>> rotary.turn(x, torch.tensor([[1, 0, 0]]))[0, 0]
    tensor([[-0.3012,  1.0000,  1.0000,  1.3818,  1.0000,  1.0000]])
    """

    source = "Wang et al. 2024, arXiv 2409.12191, section 2.1"

    def __init__(
        self,
        sections: Sequence[int] = (16, 24, 24),
        base: float = 10000.0,
        *,
        arrangement: Literal["runs", "interleaved"] = "runs",
        pairs: Pairs = "halves",
        dims: int | None = None,
        scaling: FrequencyScaling | None = None,
        length: int | Literal["positions"] | None = None,
    ) -> None:
        super().__init__(base, pairs=pairs, dims=dims, scaling=scaling, length=length)
        for section in sections:
            check_positive(section, who="MultimodalRotary", what="sections")
        if arrangement not in ("runs", "interleaved"):
            raise HeadwiseError(
                who="MultimodalRotary",
                what="arrangement",
                expected="'runs' or 'interleaved'",
                got=repr(arrangement),
                why="The pairs of an axis lie side by side or one by one between the others",
                do="Use 'runs' for Qwen2-VL and Qwen2.5-VL, 'interleaved' for Qwen3-VL",
            )
        self.sections, self.arrangement, self.axes = tuple(sections), arrangement, len(sections)

    def default_positions(self, length: int, device: torch.device) -> Int[Tensor, "*length_axes"]:
        """Those of text: the same count from 0 on every axis."""
        return torch.arange(length, device=device)[:, None].expand(-1, self.axes)

    def axis_of_pairs(self) -> list[int]:
        """Which axis each pair reads.

        >>> MultimodalRotary((2, 1, 1)).axis_of_pairs()
        [0, 0, 1, 2]
        >>> MultimodalRotary((2, 1, 1), arrangement="interleaved").axis_of_pairs()
        [0, 1, 2, 0]
        """
        if self.arrangement == "runs":
            return [axis for axis, section in enumerate(self.sections) for _ in range(section)]
        turns = [pair % self.axes for pair in range(sum(self.sections))]
        return [axis if pair < self.axes * self.sections[axis] else 0 for pair, axis in enumerate(turns)]

    def _waves(self, x: Tensor, positions: Tensor, pairs: int, length: Length) -> Rotation:
        if sum(self.sections) != pairs:
            raise HeadwiseError(
                who="MultimodalRotary",
                what="sections",
                expected=f"{pairs} pairs in all",
                got=f"{sum(self.sections)}: {self.sections}",
                why="Each pair of dimensions reads one axis",
                do="Choose sections that add up to half of head_dim, or of dims",
            )
        at = wide_positions(positions)
        axis = torch.tensor(self.axis_of_pairs(), device=at.device)
        speeds = self.frequencies(pairs, length, at.device)
        angles = at.index_select(-1, axis) * speeds[..., None, :]
        cosine, sine = waves(angles, x.device, wide_dtype(x), self._size)
        return cosine[..., None, :, :], sine[..., None, :, :]

    def extra_repr(self) -> str:
        return f"sections={self.sections}, arrangement={self.arrangement!r}, {super().extra_repr()}"


def multimodal_positions(
    *parts: int | tuple[int, int, int], device: torch.device | None = None
) -> Int[Tensor, "length 3"]:
    """Positions of texts, given by their lengths, and of images and videos, by (time, rows, columns).

    Text counts on all three axes at once. A grid starts where the text before it ended, and what follows it
    starts one after the largest number in it, so that an image of 10 by 10 cells takes 10 positions. Wang et
    al. 2024, arXiv 2409.12191, section 2.1.

    >>> multimodal_positions(1, (1, 2, 2), 1).tolist()
    [[0, 0, 0], [1, 1, 1], [1, 1, 2], [1, 2, 1], [1, 2, 2], [3, 3, 3]]
    """
    start, rows = 0, [torch.zeros(0, 3, dtype=torch.long, device=device)]
    for part in parts:
        sizes = (part,) if isinstance(part, int) else part
        for size in sizes:
            check_positive(size, who="multimodal_positions", what="parts")
        counts = [torch.arange(start, start + size, device=device) for size in sizes]
        rows.append(torch.stack(torch.meshgrid(*counts, indexing="ij"), dim=-1).flatten(0, -2).expand(-1, 3))
        start += max(sizes)
    return torch.cat(rows)
