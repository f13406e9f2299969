"""What the pieces in the tables beside are called with."""

import torch


def turned(dtype, head_dim=16, heads=3):
    """For each length: vectors ``[2 heads length head_dim]`` and their positions."""

    def make(length):
        generator = torch.Generator().manual_seed(length)
        x = torch.randn(2, heads, length, head_dim, generator=generator)
        return x.to(dtype), torch.arange(length)

    return make


def heads(dtype, heads=3, kv_heads=None, head_dim=8, queries=None, batch=2):
    """For each length: q, k, v ``[batch heads length head_dim]``, with ``queries`` of them if given."""

    def make(length):
        generator = torch.Generator().manual_seed(length)
        shapes = [(batch, heads, queries or length, head_dim)]
        shapes += 2 * [(batch, kv_heads or heads, length, head_dim)]
        return tuple(torch.randn(*shape, generator=generator).to(dtype) for shape in shapes)

    return make
