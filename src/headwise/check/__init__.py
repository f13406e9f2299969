"""Prove: property tests for anybody's attention code.

The names below load what they need when they are first used, so a result can be read without PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.check.checked import Checked as Checked
    from headwise.check.checked import Outcome as Outcome
    from headwise.check.claims import Claims as Claims
    from headwise.check.inputs import Inputs as Inputs
    from headwise.check.inputs import Tokens as Tokens
    from headwise.check.inputs import Vectors as Vectors
    from headwise.check.of_layer import layer as layer
    from headwise.check.of_model import model as model
    from headwise.check.properties.angles import angles as angles
    from headwise.check.properties.axes import axes as axes
    from headwise.check.properties.batch import batch as batch
    from headwise.check.properties.cache import cache as cache
    from headwise.check.properties.causality import causality as causality
    from headwise.check.properties.effect import effect as effect
    from headwise.check.properties.empty_rows import empty_rows as empty_rows
    from headwise.check.properties.equivariance import equivariance as equivariance
    from headwise.check.properties.evaluation import evaluation as evaluation
    from headwise.check.properties.history import history as history
    from headwise.check.properties.kv_order import kv_order as kv_order
    from headwise.check.properties.left_padding import left_padding as left_padding
    from headwise.check.properties.length import length as length
    from headwise.check.properties.lifecycle import lifecycle as lifecycle
    from headwise.check.properties.oracle import oracle as oracle
    from headwise.check.properties.pad_content import pad_content as pad_content
    from headwise.check.properties.paths import paths as paths
    from headwise.check.properties.polarity import polarity as polarity
    from headwise.check.properties.receptive_field import receptive_field as receptive_field
    from headwise.check.properties.right_padding import right_padding as right_padding
    from headwise.check.properties.rotation import rotation as rotation
    from headwise.check.properties.scale import scale as scale
    from headwise.check.properties.shift import shift as shift
    from headwise.check.report import PropertyError as PropertyError
    from headwise.check.report import Report as Report

_MODULES = {
    "checked": ("Checked", "Outcome"),
    "claims": ("Claims",),
    "inputs": ("Inputs", "Tokens", "Vectors"),
    "of_layer": ("layer",),
    "of_model": ("model",),
    "report": ("PropertyError", "Report"),
}  # each of the others is a property, in a module of its name

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


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in __all__:
        raise AttributeError(f"module 'headwise.check' has no attribute {name!r}")
    module = next((module for module, names in _MODULES.items() if name in names), f"properties.{name}")
    return getattr(import_module(f"headwise.check.{module}"), name)


def __dir__() -> list[str]:
    return __all__
