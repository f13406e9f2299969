"""Looks inside a model that reads a text: all heads at once, one window exactly, and without some heads."""

from headwise.experiments.inside.given_text import given_text
from headwise.experiments.inside.inspecting import inspect_text
from headwise.experiments.inside.inspection import Inspection

__all__ = ["Inspection", "given_text", "inspect_text"]
