"""Finds a number in a Hugging Face configuration: an object or a dictionary, of today's layout or older."""

from __future__ import annotations

from collections.abc import Mapping

from headwise.core.errors import HeadwiseError

Numbers = Mapping[str, object]


class ConfigurationReader:
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
