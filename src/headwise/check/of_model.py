"""Every property that applies to a model of tokens, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor

from headwise.check.checked import Checked
from headwise.check.claims import Claims
from headwise.check.inputs import Inputs
from headwise.check.recognise import conclude, quiet_evaluation, recognised, strengthened
from headwise.check.subjects.hugging_face import is_config, is_hugging_face
from headwise.check.subjects.model_parts import parts_of
from headwise.check.subjects.signature import Thing
from headwise.check.subjects.small import built
from headwise.check.subjects.subject import copied
from headwise.check.suite import chosen


def model(
    model: Thing,
    *,
    expect: str | Iterable[str] | Claims = (),
    call: Callable[..., Tensor] | None = None,
    inputs: Inputs | None = None,
    start: Callable[[Any], Callable[..., Tensor]] | None = None,
    make: Callable[[], Any] | None = None,
    only: str | Iterable[str] = (),
) -> Checked:
    """Check every property that applies to a model of tokens, and say how it was called.

    Known are modules from tokens ``[batch length]`` to ``[batch length ...]``, and Hugging Face models, with
    masks, positions and caches: decoders, encoders, and both in one. A Hugging Face configuration is built
    small, with random weights, and nothing is downloaded. The arguments are those of `layer`.

    Raises HeadwiseError if it cannot be built or called, or if a claim or a name is unknown.

    >>> from headwise import check
    >>> tiny = torch.nn.Sequential(torch.nn.Embedding(9, 4), torch.nn.Linear(4, 9))
    >>> checked = check.model(tiny, only="causality")
    >>> [outcome.verdict for outcome in checked.outcomes]
    ['holds']
    """
    claims, names = Claims.read(expect), chosen(only)
    if is_config(model):
        model, make = built(model, who="check.model")
    with quiet_evaluation(model):
        if is_hugging_face(model) and call is None:
            parts = parts_of(model, claims, make, who="check.model")
            return conclude({name: strengthened(part) for name, part in parts.items()}, claims, names)
        untouched = copied(model)  # before it is called to find out how
        subject = recognised(model, call=call, inputs=inputs, who="check.model")
        subject.start, subject.make, subject.untouched = start, make, untouched
        return conclude({"": strengthened(subject)}, claims, names)
