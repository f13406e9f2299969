"""Right pieces that the faulty ones are built from: projections, rotation, softmax over what is visible."""

import torch

from headwise.check import Vectors

WIDTH, HEADS = 16, 2
HEAD_DIM = WIDTH // HEADS


def vectors(dtype):
    return Vectors(WIDTH, dtype)


class Layer:
    """Projections of unit variance, the same for the same seed; subclasses say how to attend."""

    def __init__(self, dtype, seed=0):
        generator = torch.Generator().manual_seed(seed)
        weights = torch.randn(4, WIDTH, WIDTH, generator=generator) / WIDTH**0.5
        self.q, self.k, self.v, self.o = weights.to(dtype)
        self.dtype = dtype

    def project(self, x, memory=None):
        """q, k and v, ``[batch heads length head_dim]``."""
        memory = x if memory is None else memory
        return split(x @ self.q), split(memory @ self.k), split(memory @ self.v)

    def merge(self, heads):
        return heads.transpose(1, 2).flatten(-2) @ self.o


def split(x):
    return x.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)


def attend(q, k, v, visible=None, bias=None):
    """Softmax in float32 over the visible keys; a query that sees none gets zeros."""
    scores = (q @ k.mT).float() / q.shape[-1] ** 0.5
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    return scores.softmax(-1).nan_to_num(0.0).to(v.dtype) @ v


def back(queries, keys, first=0):
    """How far each key lies behind each query, the queries standing from ``first`` on."""
    return torch.arange(first, first + queries)[:, None] - torch.arange(keys)


def causal(queries, keys=None, first=0):
    return back(queries, queries if keys is None else keys, first) >= 0


def turn(x, positions, base=10_000.0, frequencies=None):
    """Rotary, the two halves of a head as pairs, angles in float32; positions ``[length]`` or ``[batch length]``."""
    half = x.shape[-1] // 2
    if frequencies is None:
        frequencies = base ** -(torch.arange(half) / half)
    angle = positions.float()[..., None] * frequencies
    angle = angle if angle.dim() == 2 else angle[:, None]
    return turn_by(x, angle)


def turn_by(x, angle):
    a, b = x.float().chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def waves(positions, width=WIDTH):
    """The sinusoidal encoding, sines then cosines."""
    angle = positions.float()[..., None] * 10_000.0 ** -(torch.arange(width // 2) / (width // 2))
    return torch.cat([angle.sin(), angle.cos()], -1)


def real_positions(keep):
    return (keep.cumsum(-1) - 1).clamp(min=0)


SLOPES = 2.0 ** -torch.arange(1.0, HEADS + 1)[:, None, None]


def alibi(queries, keys, first=0):
    return -SLOPES * back(queries, keys, first).abs()
