"""xPos: rotary, and a decay that grows with the distance, fastest for the fastest pairs."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.errors import HeadwiseError
from headwise.layers.positions.angles import check_base, frequencies, waves, wide_positions
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.pairs import Pairs, check_even, check_pairs, turn_pairs
from headwise.layers.positions.scaling.scaling import check_number
from headwise.layers.positions.turning import wide_dtype

# A query and a key are each scaled by at most 2 to this power: their products, masked ones too, stay finite.
_LARGEST = {torch.float16: 8.0, torch.bfloat16: 60.0, torch.float32: 60.0, torch.float64: 500.0}


class XPos(PositionalEncoding):
    """Rotary, with pair i of a query times ``zeta_i^((m - centre) / scale_base)``, of a key by its inverse.

    ``zeta_i = (2i + 0.4 head_dim) / (1.4 head_dim)``, so pair i of a score is multiplied by
    ``zeta_i^((m - n) / scale_base)``: it falls with the distance back, and would grow with the distance
    ahead, so xPos goes with a causal mask. Sun et al. 2022, arXiv 2212.10554, section 2.2; the numbers are
    from the authors' code.

    ``centre`` is one number for all calls, queries and keys: what it is makes no difference to a score, and
    keys in a cache stay valid. But the two scales grow with the distance to it, so it also says where numbers
    stay finite: within about 17,000 positions in float32 and bfloat16, 2,200 in float16, 141,000 in float64.
    Set it to the middle of the positions in use. Raises HeadwiseError for positions beyond that, for an odd
    head_dim, and for a base or scale_base that is not above 0.

    >>> q = torch.ones(1, 1, 2, 2)
    >>> turned_q, turned_k = XPos().rotate(q, q, torch.tensor([512, 0]), torch.tensor([512, 0]))
    >>> [round(x.norm().item() / 2**0.5, 4) for x in (turned_q[0, 0, 0], turned_k[0, 0, 0])]
    [0.2857, 3.5]
    """

    acts_on = ("queries and keys",)
    relative = True
    any_length = False
    cacheable = True
    source = "Sun et al. 2022, arXiv 2212.10554, section 2.2"

    def __init__(
        self,
        base: float = 10000.0,
        *,
        pairs: Pairs = "halves",
        centre: int = 0,
        scale_base: float = 512.0,
    ) -> None:
        super().__init__()
        check_pairs(pairs, who="XPos")
        check_base(base, who="XPos")
        check_number(centre, who="XPos", what="centre", at_least=-math.inf)
        check_number(scale_base, who="XPos", what="scale_base")
        self.base, self.pairs, self.centre, self.scale_base = base, pairs, centre, scale_base

    def rotate(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], Float[Tensor, "batch kv_heads key head_dim"]]:
        return self._turned(q, query_positions, 1.0), self._turned(k, key_positions, -1.0)

    def _turned(self, x: Tensor, positions: Tensor, sign: float) -> Tensor:
        dims = x.shape[-1]
        check_even(dims, who="XPos")
        self._check_positions(positions, x.dtype, dims)
        at = wide_positions(positions)[..., None]
        speeds = frequencies(dims, self.base, at.device)
        power = (at - self.centre) * (sign / self.scale_base)
        cosine, sine = waves(at * speeds, x.device, wide_dtype(x), self._zeta(dims, at.device) ** power)
        return turn_pairs(x, cosine[..., None, :, :], sine[..., None, :, :], self.pairs)

    def _zeta(self, dims: int, device: torch.device | None) -> Tensor:
        even = torch.arange(0, dims, 2, device=device, dtype=torch.float64)
        return (even + 0.4 * dims) / (1.4 * dims)

    def _check_positions(self, positions: Tensor, dtype: torch.dtype, dims: int) -> None:
        if torch.compiler.is_compiling() or positions.is_meta or positions.numel() == 0:
            return
        reach = math.floor(self.scale_base * _LARGEST[dtype] / math.log2(1.4 / 0.4))
        low, high = positions.aminmax()
        if low >= self.centre - reach and high <= self.centre + reach:
            return
        raise HeadwiseError(
            who="XPos",
            what="positions",
            expected=f"from {self.centre - reach} to {self.centre + reach}, around centre={self.centre}",
            got=f"{int(low)} to {int(high)}",
            why=f"Farther away the scale of a query or key leaves the range of {str(dtype)[6:]}",
            do="Set centre to the middle of the positions in use",
        )

    def extra_repr(self) -> str:
        return (
            f"base={self.base:g}, pairs={self.pairs!r}, centre={self.centre}, scale_base={self.scale_base:g}"
        )
