"""Prove: property tests for anybody's attention code."""

from headwise.check.checked import Checked, Outcome
from headwise.check.claims import Claims
from headwise.check.inputs import Inputs, Tokens, Vectors
from headwise.check.layer import layer
from headwise.check.model import model
from headwise.check.properties.angles import angles
from headwise.check.properties.axes import axes
from headwise.check.properties.batch import batch
from headwise.check.properties.cache import cache
from headwise.check.properties.causality import causality
from headwise.check.properties.effect import effect
from headwise.check.properties.empty_rows import empty_rows
from headwise.check.properties.equivariance import equivariance
from headwise.check.properties.evaluation import evaluation
from headwise.check.properties.history import history
from headwise.check.properties.kv_order import kv_order
from headwise.check.properties.left_padding import left_padding
from headwise.check.properties.length import length
from headwise.check.properties.lifecycle import lifecycle
from headwise.check.properties.oracle import oracle
from headwise.check.properties.pad_content import pad_content
from headwise.check.properties.paths import paths
from headwise.check.properties.polarity import polarity
from headwise.check.properties.receptive_field import receptive_field
from headwise.check.properties.right_padding import right_padding
from headwise.check.properties.rotation import rotation
from headwise.check.properties.scale import scale
from headwise.check.properties.shift import shift
from headwise.check.report import PropertyError, Report

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
