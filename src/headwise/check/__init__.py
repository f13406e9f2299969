"""Prove: property tests for anybody's attention code."""

from headwise.check.angles import angles
from headwise.check.axes import axes
from headwise.check.batch import batch
from headwise.check.cache import cache
from headwise.check.causality import causality
from headwise.check.checked import Checked, Outcome
from headwise.check.claims import Claims
from headwise.check.effect import effect
from headwise.check.empty_rows import empty_rows
from headwise.check.equivariance import equivariance
from headwise.check.evaluation import evaluation
from headwise.check.history import history
from headwise.check.inputs import Inputs, Tokens, Vectors
from headwise.check.kv_order import kv_order
from headwise.check.layer import layer
from headwise.check.left_padding import left_padding
from headwise.check.length import length
from headwise.check.lifecycle import lifecycle
from headwise.check.model import model
from headwise.check.oracle import oracle
from headwise.check.pad_content import pad_content
from headwise.check.paths import paths
from headwise.check.polarity import polarity
from headwise.check.receptive_field import receptive_field
from headwise.check.report import PropertyError, Report
from headwise.check.right_padding import right_padding
from headwise.check.rotation import rotation
from headwise.check.scale import scale
from headwise.check.shift import shift

__all__ = [
    "Checked",
    "Claims",
    "Inputs",
    "Outcome",
    "PropertyError",
    "Report",
    "Tokens",
    "Vectors",
    "angles",
    "axes",
    "batch",
    "cache",
    "causality",
    "effect",
    "empty_rows",
    "equivariance",
    "evaluation",
    "history",
    "kv_order",
    "layer",
    "left_padding",
    "length",
    "lifecycle",
    "model",
    "oracle",
    "pad_content",
    "paths",
    "polarity",
    "receptive_field",
    "right_padding",
    "rotation",
    "scale",
    "shift",
]
