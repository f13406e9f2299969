"""Axial rotary: a share of the pairs turns with the row, another with the column."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.angles import check_base, frequencies, waves, wide_positions
from headwise.layers.positions.pairs import Pairs, turn_pairs
from headwise.layers.positions.turning import Length, Rotation, Turning, wide_dtype


class AxialRotary(Turning):
    """The first share of the pairs turns by the first axis, the next by the second, each as in ``Rotary``.

    With n axes each has ``dims / n`` dimensions, and pair i of an axis turns by
    ``p * base^(-2i / (dims / n))``. Heo et al. 2024, arXiv 2403.13298, section 3.1. Positions are integers
    ``[length axes]`` or ``[batch length axes]``, the row first: ``grid_positions`` makes them. Three layouts
    of the pairs are in use::

        halves          (i, i + dims / 2): first rows, then columns, in each half. Qwen's and GLM's images
        neighbours      (2i, 2i + 1): rows in the first half. RoPE-ViT, SAM
        axis halves     as "halves", within the share of each axis: rows in the first half. Gemma 4's images

    Raises HeadwiseError if the dimensions do not split into pairs for each axis; ``dims`` leaves a rest as it
    is.

    >>> rotary = AxialRotary(base=100.0)
    >>> rotary.turn(torch.tensor([1.0, 1.0, 0.0, 0.0]).reshape(1, 1, 1, 4), torch.tensor([[0, 1]]))[0, 0]
    tensor([[1.0000, 0.5403, 0.0000, 0.8415]])
    """

    source = "Heo et al. 2024, arXiv 2403.13298, section 3.1"

    def __init__(
        self,
        base: float = 10000.0,
        *,
        axes: int = 2,
        pairs: Pairs | Literal["axis halves"] = "halves",
        dims: int | None = None,
    ) -> None:
        super().__init__("halves" if pairs == "axis halves" else pairs, dims)
        check_base(base, who="AxialRotary")
        check_positive(axes, who="AxialRotary", what="axes")
        self.base, self.axes, self.within_axis = base, axes, pairs == "axis halves"

    def _waves(self, x: Tensor, positions: Tensor, pairs: int, length: Length) -> Rotation:
        if pairs % self.axes:
            raise HeadwiseError(
                who="AxialRotary",
                what="dims" if self.dims else "head_dim",
                expected=f"a multiple of {2 * self.axes}",
                got=str(2 * pairs),
                why=f"Each of the {self.axes} axes has pairs of its own",
                do=f"Pass dims={2 * pairs - 2 * pairs % (2 * self.axes)} to leave the rest as it is",
            )
        at = wide_positions(positions)
        speeds = frequencies(2 * pairs // self.axes, self.base, at.device)
        angles = (at[..., None] * speeds).flatten(-2)
        cosine, sine = waves(angles, x.device, wide_dtype(x))
        return cosine[..., None, :, :], sine[..., None, :, :]

    def _turned(self, x: Tensor, rotation: Rotation) -> Tensor:
        if not self.within_axis:
            return super()._turned(x, rotation)
        cosines, sines = (wave.chunk(self.axes, dim=-1) for wave in rotation)
        share = 2 * cosines[0].shape[-1]
        *parts, rest = x.tensor_split([share * (axis + 1) for axis in range(self.axes)], dim=-1)
        turned = [turn_pairs(*part, "halves") for part in zip(parts, cosines, sines, strict=True)]
        return torch.cat((*turned, rest), dim=-1)

    def extra_repr(self) -> str:
        pairs = "axis halves" if self.within_axis else self.pairs
        dims = "" if self.dims is None else f", dims={self.dims}"
        return f"base={self.base:g}, axes={self.axes}, pairs={pairs!r}{dims}"


def grid_positions(*sizes: int, device: torch.device | None = None) -> Int[Tensor, "length axes"]:
    """Where each cell of a grid stands, row by row: the last axis counts fastest.

    >>> grid_positions(2, 3).tolist()
    [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    """
    for size in sizes:
        check_positive(size, who="grid_positions", what="sizes")
    counts = [torch.arange(size, device=device) for size in sizes]
    return torch.stack(torch.meshgrid(*counts, indexing="ij"), dim=-1).flatten(0, -2)
