"""Prove: property tests for anybody's attention code."""

from headwise.check.batch import batch
from headwise.check.cache import cache
from headwise.check.causality import causality
from headwise.check.equivariance import equivariance
from headwise.check.history import history
from headwise.check.inputs import Inputs, Tokens, Vectors
from headwise.check.left_padding import left_padding
from headwise.check.pad_content import pad_content
from headwise.check.receptive_field import receptive_field
from headwise.check.report import PropertyError, Report
from headwise.check.right_padding import right_padding
from headwise.check.shift import shift

__all__ = [
    "Inputs",
    "PropertyError",
    "Report",
    "Tokens",
    "Vectors",
    "batch",
    "cache",
    "causality",
    "equivariance",
    "history",
    "left_padding",
    "pad_content",
    "receptive_field",
    "right_padding",
    "shift",
]
