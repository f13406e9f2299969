"""Eight bits for each number of a key or value, and one scale for each token and head."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int8
from torch import Tensor

_MOST = 127  # the codes are -127 to 127, so that minus x is coded as minus the code of x


def encode(
    x: Float[Tensor, "batch heads key dim"],
) -> tuple[Int8[Tensor, "batch heads key dim"], Float[Tensor, "batch heads key 1"]]:
    """``scale = max |x| / 127`` and ``code = round(x / scale)``: the error is at most half a scale.

    >>> code, scale = encode(torch.tensor([[[[1.0, -0.5, 0.0]]]]))
    >>> code[0, 0, 0].tolist()
    [127, -64, 0]
    >>> decode(code, scale, torch.float32)[0, 0, 0]
    tensor([ 1.0000, -0.5039,  0.0000])
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    largest = wide.abs().amax(-1, keepdim=True) if x.shape[-1] else wide.new_zeros((*x.shape[:-1], 1))
    scale = (largest / _MOST).to(torch.float32)
    # a token of zeros, or of numbers too small for a scale, is stored as zeros
    code = (wide / torch.where(scale > 0, scale, 1.0)).round().clamp(-_MOST, _MOST)
    return code.to(torch.int8), scale


def decode(
    code: Int8[Tensor, "batch heads key dim"], scale: Float[Tensor, "batch heads key 1"], dtype: torch.dtype
) -> Float[Tensor, "batch heads key dim"]:
    """``code * scale``; a token that held NaN or infinity comes back as NaN.

    >>> decode(*encode(torch.full((1, 1, 1, 2), torch.nan)), torch.float32)[0, 0, 0]
    tensor([nan, nan])
    """
    wide = torch.promote_types(dtype, torch.float32)
    return (code.to(wide) * scale.to(wide)).to(dtype)
