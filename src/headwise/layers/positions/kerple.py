"""Penalties whose shape each head learns: they grow with the logarithm or with a power of the distance."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core.shapes import check_positive
from headwise.layers.positions.distances import check_heads, differences
from headwise.layers.positions.encoding import PositionalEncoding

_LEAST = 0.01  # the authors' code keeps parameters at or above it


class KerpleLog(PositionalEncoding):
    """``bias_h(i, j) = -amplitude_h * log(1 + rate_h * |p_i - p_j|)``, added after the scale.

    Both numbers are above 0 and learned, as exponentials of ``log_amplitude`` and ``log_rate``: nothing has
    to be clamped. They start uniform, the amplitude up to 2 and the rate up to 1. Chi et al. 2022, arXiv
    2205.09921, the logarithmic variant; where they start is from the authors' code.

    >>> kerple = KerpleLog(heads=1)
    >>> _ = kerple.load_state_dict({"log_amplitude": torch.zeros(1), "log_rate": torch.zeros(1)})
    >>> q, k = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 4, 2)
    >>> kerple.bias(q, k, torch.tensor([3]), torch.arange(4), None).exp()[0, 0]
    tensor([[0.2500, 0.3333, 0.5000, 1.0000]], grad_fn=<SelectBackward0>)
    """

    acts_on = ("scores",)
    relative = True
    any_length = True
    cacheable = True
    source = "Chi et al. 2022, arXiv 2205.09921"
    per_head = (("log_amplitude", 0), ("log_rate", 0))

    def __init__(self, heads: int) -> None:
        super().__init__()
        check_positive(heads, who="KerpleLog", what="heads")
        self.heads = heads
        self.log_amplitude = nn.Parameter(torch.empty(heads))
        self.log_rate = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw both numbers of each head anew."""
        _draw_log_(self.log_amplitude, most=2.0)
        _draw_log_(self.log_rate, most=1.0)

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch heads query key"]:
        check_heads(q, self.heads, who="KerpleLog")
        distance = _distance(q, query_positions, key_positions)
        amplitude = _each_head(self.log_amplitude, distance.dtype).exp()
        rate = _each_head(self.log_rate, distance.dtype).exp()
        return -amplitude * torch.log1p(rate * distance)

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


class KerplePower(PositionalEncoding):
    """``bias_h(i, j) = -amplitude_h * |p_i - p_j|^exponent_h``, added after the scale.

    The amplitude is above 0, as the exponential of ``log_amplitude``; the exponent lies between 0 and 2, as
    ``2 * sigmoid(logit_exponent)``. They start uniform, the amplitude up to 1. An exponent of 1 is ALiBi with
    learned slopes. Chi et al. 2022, arXiv 2205.09921, the power variant.

    >>> kerple = KerplePower(heads=1)
    >>> _ = kerple.load_state_dict({"log_amplitude": torch.zeros(1), "logit_exponent": torch.zeros(1)})
    >>> q, k = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 4, 2)
    >>> kerple.bias(q, k, torch.tensor([3]), torch.arange(4), None)[0, 0]
    tensor([[-3., -2., -1., -0.]], grad_fn=<SelectBackward0>)
    """

    acts_on = ("scores",)
    relative = True
    any_length = True
    cacheable = True
    source = "Chi et al. 2022, arXiv 2205.09921"
    per_head = (("log_amplitude", 0), ("logit_exponent", 0))

    def __init__(self, heads: int) -> None:
        super().__init__()
        check_positive(heads, who="KerplePower", what="heads")
        self.heads = heads
        self.log_amplitude = nn.Parameter(torch.empty(heads))
        self.logit_exponent = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw both numbers of each head anew."""
        _draw_log_(self.log_amplitude, most=1.0)
        with torch.no_grad():
            self.logit_exponent.uniform_(_LEAST / 2, 1 - _LEAST / 2).logit_()

    def bias(
        self,
        q: Float[Tensor, "batch heads query head_dim"],
        k: Float[Tensor, "batch kv_heads key head_dim"],
        query_positions: Int[Tensor, "*batch query"],
        key_positions: Int[Tensor, "*batch key"],
        visible: Bool[Tensor, "#batch #heads query key"] | None,
    ) -> Float[Tensor, "#batch heads query key"]:
        check_heads(q, self.heads, who="KerplePower")
        distance = _distance(q, query_positions, key_positions)
        amplitude = _each_head(self.log_amplitude, distance.dtype).exp()
        exponent = 2 * _each_head(self.logit_exponent, distance.dtype).sigmoid()
        return -amplitude * distance**exponent

    def extra_repr(self) -> str:
        return f"heads={self.heads}"


def _distance(q: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    whole = differences(query_positions, key_positions).abs()
    return whole[:, None].to(torch.promote_types(q.dtype, torch.float32))


def _each_head(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    return parameter.to(dtype)[:, None, None]


@torch.no_grad()
def _draw_log_(parameter: Tensor, most: float) -> None:
    parameter.uniform_(_LEAST, most).log_()
