"""One layer on several devices: split over heads, or over the sequence."""

from headwise.layers.parallel.tensor import split_linears, tensor_parallel

__all__ = ["split_linears", "tensor_parallel"]
