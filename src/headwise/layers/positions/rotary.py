"""Queries and keys turned by their positions, so that a score depends on the distance."""

from __future__ import annotations

from typing import Literal, TypedDict

from torch import Tensor

from headwise.layers.positions.angles import waves, wide_positions
from headwise.layers.positions.axial import AxialRotary
from headwise.layers.positions.hugging_face import rotary_numbers
from headwise.layers.positions.multimodal import MultimodalRotary
from headwise.layers.positions.pairs import Pairs
from headwise.layers.positions.scaled import ScaledTurning
from headwise.layers.positions.scaling.scaling import FrequencyScaling
from headwise.layers.positions.turning import Length, Rotation, Turning, wide_dtype


class Rotary(ScaledTurning):
    """Pair i of a query or key at position p turns by ``p * base^(-2i / dims)``.

    Both turn, so their dot product keeps only the difference: ``(R_m q) . (R_n k) = q . (R_(n-m) k)``.
    Su et al. 2021, arXiv 2104.09864, eq. (34). Two layouts of the pairs are in use; weights trained with one
    do not work with the other::

        neighbours   x0 x1 | x2 x3     pairs (2i, 2i + 1): the paper, GPT-J, the released Llama weights
        halves       x0 x2 | x1 x3     pairs (i, i + dims / 2): GPT-NeoX, Hugging Face models

    Angles come from integer positions in float64, and the turn is done in float32 or better: half precision
    stays right at any distance.

    Args:
        base: sets the slowest frequency.
        pairs: "halves" or "neighbours".
        dims: how many of the first dimensions turn (partial rotary), all of head_dim unless given. Pairs and
            frequencies are those of a head of that width; the other dimensions pass as they are.
        scaling: changes the frequencies, for example ``YaRN(4.0, original_length=4096)``.
        length: what a scaling that depends on the length takes it from, as ``DynamicNTK`` does: a number of
            tokens, or "positions" for the largest position of each row plus 1, which no cache can hold.

    Raises HeadwiseError for an odd number of dimensions, for more dims than the head has, for a base that is
    not above 0, and for a length that is missing or in vain.

    >>> q = torch.tensor([1.0, 0.0, 0.0, 0.0]).reshape(1, 1, 1, 4)
    >>> Rotary(pairs="halves").turn(q, torch.tensor([1]))[0, 0]
    tensor([[0.5403, 0.0000, 0.8415, 0.0000]])
    >>> Rotary(pairs="neighbours").turn(q, torch.tensor([1]))[0, 0]
    tensor([[0.5403, 0.8415, 0.0000, 0.0000]])
    >>> from headwise.layers.positions.scaling import DynamicNTK
    >>> Rotary(scaling=DynamicNTK(2.0, original_length=2048), length=4096).cacheable
    True
    """

    source = "Su et al. 2021, arXiv 2104.09864, eq. (34)"

    def __init__(
        self,
        base: float = 10000.0,
        *,
        pairs: Pairs = "halves",
        dims: int | None = None,
        scaling: FrequencyScaling | None = None,
        length: int | Literal["positions"] | None = None,
    ) -> None:
        super().__init__(base, pairs=pairs, dims=dims, scaling=scaling, length=length)

    @classmethod
    def from_config(
        cls,
        config: object,
        *,
        layer_type: str | None = None,
        pairs: Pairs | None = None,
        length: int | Literal["positions"] = "positions",
    ) -> Turning:
        """The rotary encoding of a Hugging Face configuration: an object, or its JSON as a dictionary.

        Every rope type of transformers 5 is known, partial rotary too; with sections for several axes it is a
        ``MultimodalRotary``, for images an ``AxialRotary``.

        Args:
            config: read by the names of its attributes; transformers itself is not needed.
            layer_type: which kind of layer, where each has numbers of its own: an entry of ``layer_types``.
            pairs: the layout, where it is not the one transformers uses for this model type.
            length: what "dynamic" and "longrope" take the length from; transformers takes it from the
                positions of each call, and a number lets keys be cached.

        Raises HeadwiseError for an unknown rope type and for a number that is missing.

        >>> config = {"rope_theta": 5e5, "head_dim": 128, "partial_rotary_factor": 0.25}
        >>> Rotary.from_config(config)
        Rotary(base=500000, pairs='halves', dims=32)
        """
        numbers = rotary_numbers(config, layer_type)
        if numbers.axial:
            return AxialRotary(numbers.base, pairs=pairs or numbers.pairs)
        own: Pairs = "neighbours" if numbers.pairs == "neighbours" else "halves"
        needs_length = numbers.scaling is not None and numbers.scaling.needs_length
        how = _How(
            pairs=pairs or own,
            dims=numbers.dims,
            scaling=numbers.scaling,
            length=length if needs_length else None,
        )
        if numbers.sections is None:
            return cls(numbers.base, **how)
        return MultimodalRotary(numbers.sections, numbers.base, arrangement=numbers.arrangement, **how)

    def _waves(self, x: Tensor, positions: Tensor, pairs: int, length: Length) -> Rotation:
        at = wide_positions(positions)
        speeds = self.frequencies(pairs, length, at.device)
        cosine, sine = waves(at[..., None] * speeds[..., None, :], x.device, wide_dtype(x), self._size)
        return cosine[..., None, :, :], sine[..., None, :, :]  # the same for all heads


class _How(TypedDict):
    pairs: Pairs
    dims: int | None
    scaling: FrequencyScaling | None
    length: int | Literal["positions"] | None
