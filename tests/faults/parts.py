"""Right pieces that the faulty ones are built from: projections, rotation, softmax over what is visible."""

import torch

from headwise.check import Vectors

WIDTH, HEADS = 16, 2
HEAD_DIM = WIDTH // HEADS
WINDOW = 4


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
    """Rotary over halves of a head, angles in float32; positions are ``[length]`` or ``[batch length]``."""
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


class Steps:
    """A cache of rotated keys that grows, over one layer: positions and masks go by what was cached."""

    def __init__(self, layer, window=None):
        self.layer, self.window = layer, window
        self.first, self.keys, self.values = 0, None, None

    def __call__(self, chunk):
        q, k, v = self.layer.project(chunk)
        q, k = self.turned(q, k)
        self.keys = k if self.keys is None else torch.cat([self.keys, k], 2)
        self.values = v if self.values is None else torch.cat([self.values, v], 2)
        queries, keys = chunk.shape[1], self.keys.shape[2]
        heads = attend(q, self.keys, self.values, self.visible(queries, keys), self.bias(queries, keys))
        self.first += queries
        return self.layer.merge(heads)

    def positions(self, length):
        return torch.arange(self.first, self.first + length)

    def turned(self, q, k):
        positions = self.positions(q.shape[2])
        return turn(q, positions), turn(k, positions)

    def visible(self, queries, keys):
        behind = back(queries, keys, self.first)
        return (behind >= 0) if self.window is None else (behind >= 0) & (behind < self.window)

    def bias(self, queries, keys):
        return None


class PaddedSteps(Steps):
    """The same for rows of unequal lengths: ``step(chunk, keep)``, and each row counts its own tokens."""

    def __init__(self, layer):
        super().__init__(layer)
        self.keep, self.counts = None, 0

    def __call__(self, chunk, keep):
        self.at = (self.counts + keep.cumsum(-1) - 1).clamp(min=0)
        self.counts = self.counts + keep.sum(-1, keepdim=True)
        self.keep = keep if self.keep is None else torch.cat([self.keep, keep], 1)
        return super().__call__(chunk)

    def positions(self, length):
        return self.at

    def visible(self, queries, keys):
        return super().visible(queries, keys) & self.keep[:, None, None]
