"""One layer on several devices: split over heads, or over the sequence."""

from headwise.layers.parallel.context import ContextParallel
from headwise.layers.parallel.tensor import split_linears, tensor_parallel

__all__ = ["ContextParallel", "split_linears", "tensor_parallel"]
