"""The exception of every room, which stands below this one so that it can be had without PyTorch."""

from headwise.errors import HeadwiseError

__all__ = ["HeadwiseError"]
