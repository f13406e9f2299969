"""Looks inside a model that reads a text: all heads at once, one window exactly, and without some heads."""

from headwise.experiments.inside.ablating import ablate_heads
from headwise.experiments.inside.ablation import Ablation
from headwise.experiments.inside.given_text import given_text
from headwise.experiments.inside.inspecting import inspect_text
from headwise.experiments.inside.inspection import Inspection
from headwise.experiments.inside.window import Window
from headwise.experiments.inside.zooming import zoom

__all__ = [
    "Ablation",
    "Inspection",
    "Window",
    "ablate_heads",
    "given_text",
    "inspect_text",
    "zoom",
]
