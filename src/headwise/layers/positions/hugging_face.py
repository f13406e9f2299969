"""The rotary numbers of a Hugging Face configuration, object or dictionary, read without transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from headwise.core.errors import HeadwiseError
from headwise.layers.positions.configuration import ConfigurationReader
from headwise.layers.positions.model_types import (
    AXIAL_AXIS_HALVES,
    AXIAL_HALVES,
    INTERLEAVED_AXES,
    OTHER_SECTIONS,
    PAIRS_OF_NEIGHBOURS,
)
from headwise.layers.positions.scaling.interpolation import DynamicNTK, PositionInterpolation
from headwise.layers.positions.scaling.llama3 import Llama3
from headwise.layers.positions.scaling.longrope import LongRoPE
from headwise.layers.positions.scaling.proportional import Proportional
from headwise.layers.positions.scaling.scaling import FrequencyScaling
from headwise.layers.positions.scaling.yarn import YaRN


class RotaryNumbers(NamedTuple):
    """What a configuration says of its rotary encoding."""

    base: float
    dims: int | None
    scaling: FrequencyScaling | None
    pairs: Literal["halves", "neighbours", "axis halves"]
    sections: tuple[int, ...] | None
    arrangement: Literal["runs", "interleaved"]
    axial: bool


def rotary_numbers(config: object, layer_type: str | None = None) -> RotaryNumbers:
    """Read a configuration of transformers 4 or 5, or its JSON as a dictionary.

    Raises HeadwiseError for a rope type that is not known, for a number that is missing, and where each kind
    of layer has numbers of its own and ``layer_type`` does not name one.

    >>> rotary_numbers({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}}).scaling
    PositionInterpolation(factor=2.0)
    """
    read = ConfigurationReader(config, layer_type)
    kind = read.kind()
    if kind not in ROPE_TYPES:
        raise HeadwiseError(
            who="Rotary.from_config",
            what="rope_type",
            expected=f"one of {', '.join(ROPE_TYPES)}",
            got=repr(kind),
            why="Each type is a formula of its own, so none is guessed",
            do="Build Rotary with a scaling of your own for it",
        )
    model_type = str(read.config("model_type") or "")
    sections = read.rope("mrope_section")
    _check_known(model_type, axial=kind == "axial", sections=sections is not None)
    in_turn = bool(read.rope("mrope_interleaved")) or model_type in INTERLEAVED_AXES
    return RotaryNumbers(
        base=read.number("rope_theta", "rotary_emb_base", "default_theta"),
        dims=None if kind in ("proportional", "axial") else _dims(read),
        scaling=ROPE_TYPES[kind](read),
        pairs="axis halves"
        if model_type in AXIAL_AXIS_HALVES
        else "neighbours"
        if model_type in PAIRS_OF_NEIGHBOURS or read.config("rope_interleave") is True
        else "halves",
        sections=tuple(int(section) for section in sections) if isinstance(sections, (list, tuple)) else None,
        arrangement="interleaved" if in_turn else "runs",
        axial=kind == "axial",
    )


def _check_known(model_type: str, *, axial: bool, sections: bool) -> None:
    known = model_type in AXIAL_HALVES | AXIAL_AXIS_HALVES if axial else model_type not in OTHER_SECTIONS
    if known or not (axial or sections):
        return
    raise HeadwiseError(
        who="Rotary.from_config",
        what="model_type",
        expected="one whose arrangement of axes is known",
        got=repr(model_type or None),
        why="A configuration does not say which pairs read which axis",
        do="Build AxialRotary or MultimodalRotary with the pairs of that model",
    )


def _dims(read: ConfigurationReader) -> int | None:
    share = read.optional("partial_rotary_factor")
    if share is None:
        found = read.config("partial_rotary_factor", "rotary_pct")
        share = float(found) if isinstance(found, (int, float)) else None
    if share is None or share == 1:
        dims = read.config("rotary_dim")
        return dims if isinstance(dims, int) else None
    head_dim = read.config("qk_rope_head_dim", "head_dim")
    if not isinstance(head_dim, int):
        heads = read.number("num_attention_heads", "n_head")
        head_dim = int(read.number("hidden_size", "n_embd")) // int(heads)
    return int(head_dim * share)


def _yarn(read: ConfigurationReader) -> YaRN:
    truncate = read.rope("truncate")
    return YaRN(
        read.growth(),
        read.length(),
        beta_fast=read.optional("beta_fast") or 32.0,
        beta_slow=read.optional("beta_slow") or 1.0,
        truncate=truncate is None or bool(truncate),
        mscale=read.optional("mscale"),
        mscale_all_dim=read.optional("mscale_all_dim"),
        given_attention_factor=read.optional("attention_factor"),
    )


def _longrope(read: ConfigurationReader) -> LongRoPE:
    return LongRoPE(
        read.numbers("short_factor"),
        read.numbers("long_factor"),
        read.length(),
        read.growth(),
        given_attention_factor=read.optional("attention_factor"),
    )


def _llama3(read: ConfigurationReader) -> Llama3:
    low, high = read.number("low_freq_factor"), read.number("high_freq_factor")
    return Llama3(read.number("factor"), read.length(), low, high)


def _proportional(read: ConfigurationReader) -> Proportional:
    share, factor = read.optional("partial_rotary_factor"), read.optional("factor")
    return Proportional(1.0 if share is None else share, 1.0 if factor is None else factor)


ROPE_TYPES: dict[str, Callable[[ConfigurationReader], FrequencyScaling | None]] = {
    "default": lambda read: None,
    "linear": lambda read: PositionInterpolation(read.number("factor")),
    "dynamic": lambda read: DynamicNTK(read.number("factor"), int(read.number("max_position_embeddings"))),
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
    "axial": lambda read: None,
}
