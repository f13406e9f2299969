"""Prove: property tests for anybody's attention code."""

from headwise.check.angles import angles
from headwise.check.axes import axes
from headwise.check.causality import causality
from headwise.check.effect import effect
from headwise.check.empty_rows import empty_rows
from headwise.check.evaluation import evaluation
from headwise.check.inputs import Inputs, Tokens, Vectors
from headwise.check.kv_order import kv_order
from headwise.check.length import length
from headwise.check.lifecycle import lifecycle
from headwise.check.oracle import oracle
from headwise.check.paths import paths
from headwise.check.polarity import polarity
from headwise.check.report import PropertyError, Report
from headwise.check.rotation import rotation
from headwise.check.scale import scale

__all__ = [
    "Inputs",
    "PropertyError",
    "Report",
    "Tokens",
    "Vectors",
    "angles",
    "axes",
    "causality",
    "effect",
    "empty_rows",
    "evaluation",
    "kv_order",
    "length",
    "lifecycle",
    "oracle",
    "paths",
    "polarity",
    "rotation",
    "scale",
]
