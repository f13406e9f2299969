"""The rotary numbers of a Hugging Face configuration, object or dictionary, read without transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from headwise.core.errors import HeadwiseError
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

Numbers = Mapping[str, object]


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
    read = _Reader(config, layer_type)
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


class _Reader:
    """Finds a number in the rope parameters of one kind of layer, or beside them in the configuration."""

    def __init__(self, config: object, layer_type: str | None) -> None:
        self._config = _own(config, layer_type)
        self.layer_type = layer_type
        self._rope = self._parameters()

    def kind(self) -> str:
        """The rope type, under today's name for it."""
        kind = str(self.rope("rope_type") or self.rope("type") or "default")
        return {"su": "longrope", "mrope": "default"}.get(kind, kind)

    def config(self, *names: str) -> object:
        """The first of these that the configuration has."""
        for name in names:
            value = _get(self._config, name)
            if value is not None:
                return value
        return None

    def rope(self, name: str) -> object:
        """One of the rope parameters."""
        return self._rope.get(name)

    def number(self, *names: str) -> float:
        """The first of these that the rope parameters or the configuration have, which must have one."""
        for find in (self.rope, self.config):
            for name in names:
                value = find(name)
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    return value
        found = self.rope(names[0])
        raise _missing(names[0], self.config(names[0]) if found is None else found, self.kind(), "a number")

    def numbers(self, name: str) -> list[float]:
        """A list of numbers among the rope parameters, which must have it."""
        found = self.rope(name)
        if isinstance(found, (list, tuple)):
            return list(found)
        raise _missing(name, found, self.kind(), "a list of numbers")

    def optional(self, name: str) -> float | None:
        """A number among the rope parameters, if they have it."""
        return None if self.rope(name) is None else self.number(name)

    def length(self) -> int:
        """The length the model was trained with, before its context was made longer."""
        outside = self.config("original_max_position_embeddings")
        if isinstance(outside, int) and not self.nested:
            return outside
        return int(self.number("original_max_position_embeddings", "max_position_embeddings"))

    def growth(self) -> float:
        """The factor, or what the configuration's two lengths come to."""
        if self.rope("factor") is not None:
            return self.number("factor")
        return self.number("max_position_embeddings") / self.length()

    def _parameters(self) -> Numbers:
        found = self.config("rope_parameters", "rope_scaling")
        parameters: Numbers = found if isinstance(found, Mapping) else {}
        kinds = [name for name, value in parameters.items() if isinstance(value, Mapping) or value is None]
        known = [name for name in kinds if isinstance(parameters[name], Mapping)]
        self.nested = bool(known)
        if not self.nested:
            return {**parameters, **self._local()}
        own = parameters.get(self.layer_type) if self.layer_type is not None else None
        if isinstance(own, Mapping):
            return own
        raise HeadwiseError(
            who="Rotary.from_config",
            what="layer_type",
            expected=f"one of {', '.join(known)}",
            got=repr(self.layer_type),
            why="Each kind of layer has a rotary encoding of its own"
            if self.layer_type not in kinds
            else "That kind of layer has no rotary encoding",
            do="Pass the layer's entry of config.layer_types",
        )

    def _local(self) -> Numbers:
        """Older configurations of Gemma 3 and ModernBERT give windowed layers a base beside the others."""
        local = self.config("rope_local_base_freq", "local_rope_theta")
        if self.layer_type == "sliding_attention" and local is not None:
            return {"rope_theta": local, "rope_type": "default", "factor": None}
        overall = self.config("global_rope_theta")
        return {} if overall is None else {"rope_theta": overall}


def _missing(name: str, found: object, kind: str, expected: str) -> HeadwiseError:
    return HeadwiseError(
        who="Rotary.from_config",
        what=name,
        expected=f"{expected} in the configuration",
        got=repr(found),
        why=f"The frequencies of rope_type={kind!r} are computed from it",
        do="Pass the whole configuration of the model, or add it",
    )


def _get(config: object, name: str) -> object:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def _own(config: object, layer_type: str | None) -> object:
    """The part that holds the numbers: the text model's, and of that the kind of layer's."""
    rope = _get(config, "rope_parameters") or _get(config, "rope_scaling") or _get(config, "rope_theta")
    text = _get(config, "text_config")
    config = text if rope is None and text is not None else config
    kinds = _get(config, "per_layer_config") if layer_type is not None else None
    try:
        return kinds[layer_type] if kinds is not None else config  # type: ignore[index]
    except (KeyError, ValueError, TypeError):
        return config


def _dims(read: _Reader) -> int | None:
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


def _yarn(read: _Reader) -> YaRN:
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


def _longrope(read: _Reader) -> LongRoPE:
    return LongRoPE(
        read.numbers("short_factor"),
        read.numbers("long_factor"),
        read.length(),
        read.growth(),
        given_attention_factor=read.optional("attention_factor"),
    )


def _llama3(read: _Reader) -> Llama3:
    low, high = read.number("low_freq_factor"), read.number("high_freq_factor")
    return Llama3(read.number("factor"), read.length(), low, high)


def _proportional(read: _Reader) -> Proportional:
    share, factor = read.optional("partial_rotary_factor"), read.optional("factor")
    return Proportional(1.0 if share is None else share, 1.0 if factor is None else factor)


ROPE_TYPES: dict[str, Callable[[_Reader], FrequencyScaling | None]] = {
    "default": lambda read: None,
    "linear": lambda read: PositionInterpolation(read.number("factor")),
    "dynamic": lambda read: DynamicNTK(read.number("factor"), int(read.number("max_position_embeddings"))),
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
    "axial": lambda read: None,
}
