"""Prove: property tests for anybody's attention code."""

from headwise.check.causality import causality
from headwise.check.inputs import Inputs, Tokens, Vectors
from headwise.check.report import PropertyError, Report

__all__ = ["Inputs", "PropertyError", "Report", "Tokens", "Vectors", "causality"]
