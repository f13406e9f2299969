"""Mixed rotary: each pair of each head learns the direction in the image along which it turns."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.positions.angles import check_base, waves, wide_positions
from headwise.layers.positions.pairs import Pairs, check_even
from headwise.layers.positions.turning import Length, Rotation, Turning, wide_dtype


class MixedRotary(Turning):
    """Pair i of head h turns by ``row * f[h, i, 0] + column * f[h, i, 1]``, with f learned.

    Heo et al. 2024, arXiv 2403.13298, section 3.2. Positions are integers ``[length 2]`` or
    ``[batch length 2]``; ``grid_positions`` makes them. With grouped queries the queries of a group turn as
    the key/value head they read, so ``heads`` counts key/value heads.

    The vectors of half of the pairs start in one random direction for each head, those of the others at right
    angles to it, with lengths ``base^(-2i / pairs)``. Raises HeadwiseError for an odd head_dim and for
    queries or keys of another width or another number of heads.

    >>> from headwise.layers.positions.axial import grid_positions
    >>> rotary = MixedRotary(heads=2, head_dim=8)
    >>> rotary.frequencies.shape
    torch.Size([2, 4, 2])
    >>> rotary.turn(torch.randn(1, 2, 6, 8), grid_positions(2, 3)).shape
    torch.Size([1, 2, 6, 8])
    """

    axes = 2
    source = "Heo et al. 2024, arXiv 2403.13298, section 3.2"
    _same_for_all_heads = False

    def __init__(self, heads: int, head_dim: int, *, base: float = 10.0, pairs: Pairs = "halves") -> None:
        super().__init__(pairs)
        check_positive(heads, who="MixedRotary", what="heads")
        check_positive(head_dim, who="MixedRotary", what="head_dim")
        check_even(head_dim, who="MixedRotary")
        check_base(base, who="MixedRotary")
        self.base = base
        self.per_head = (("frequencies", 0),) if heads > 1 else ()
        self.frequencies = nn.Parameter(torch.empty(heads, head_dim // 2, 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the directions anew."""
        heads, pairs, _ = self.frequencies.shape
        half = (pairs + 1) // 2
        pair = torch.arange(pairs, device=self.frequencies.device)
        lengths = self.base ** (-2.0 * (pair % half) / pairs)
        first = torch.rand(heads, 1, device=self.frequencies.device) * 2 * math.pi
        directions = first + (pair >= half) * (math.pi / 2)
        with torch.no_grad():
            self.frequencies.copy_(torch.stack((directions.cos(), directions.sin()), -1) * lengths[:, None])

    def _waves(self, x: Tensor, positions: Tensor, pairs: int, length: Length) -> Rotation:
        heads, own_pairs, _ = self.frequencies.shape
        if x.shape[1] % heads or pairs != own_pairs:
            raise HeadwiseError(
                who="MixedRotary",
                what="queries and keys",
                expected=f"of head_dim={2 * own_pairs}, with a multiple of {heads} heads",
                got=f"head_dim={2 * pairs} and {x.shape[1]} heads",
                why="Each pair of each key/value head has a frequency vector of its own",
                do="Build MixedRotary(heads=kv_heads, head_dim=head_dim) with the layer's numbers",
            )
        at = wide_positions(positions)[..., None, :, None, :]  # batch heads length pairs axes
        speeds = self.frequencies.to(at.device, torch.float64)[:, None]
        angles = at[..., 0] * speeds[..., 0] + at[..., 1] * speeds[..., 1]
        cosine, sine = waves(angles, x.device, wide_dtype(x))
        shared = x.shape[1] // heads
        if shared == 1:
            return cosine, sine
        return cosine.repeat_interleave(shared, dim=-3), sine.repeat_interleave(shared, dim=-3)

    def extra_repr(self) -> str:
        heads, pairs, _ = self.frequencies.shape
        return f"heads={heads}, head_dim={2 * pairs}, base={self.base:g}, {super().extra_repr()}"
