"""What a model makes of its text, as far as it can be compared: a loss, or an output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.experiments.inside.ablation import Effect
from headwise.experiments.inside.subject import Subject

_ROWS = 256  # of logits at a time: 50,000 of them each take 50 MB


@dataclass(frozen=True)
class Outcome:
    """One run's loss in nats per token, or its output ``[1 ...]``.

    >>> x = torch.tensor([[[3.0, 4.0]]])
    >>> Outcome(None, 2 * x).against(Outcome(None, x), ["0.0"]).output_change
    1.0
    """

    loss: float | None
    output: Tensor | None

    def against(self, base: Outcome, heads: list[str]) -> Effect:
        """What changed from the run with all heads."""
        if self.loss is not None and base.loss is not None:
            return Effect(heads, loss=self.loss, loss_change=self.loss - base.loss)
        assert self.output is not None
        assert base.output is not None
        new, old = self.output.double(), base.output.double()
        size = float(old.norm())
        change = float((new - old).norm()) / size if size else float((new - old).norm())
        return Effect(heads, output_change=change, vector_change=_vector_change(new, old))


def outcome_of(subject: Subject) -> Outcome:
    """Run the model once. Raises HeadwiseError if nothing it gives can be compared."""
    output = subject.run(use_cache=False)
    if predicts_next_token(subject.network):
        return Outcome(_loss(output.logits[0], subject.inputs["input_ids"][0], subject.name), None)
    return Outcome(None, first_tensor(output, subject.name).detach().clone())


def predicts_next_token(network: nn.Module) -> bool:
    """Whether transformers knows the model as a causal language model.

    >>> predicts_next_token(nn.Linear(1, 1))
    False
    """
    if not hasattr(network, "config"):
        return False
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return type(network).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()


def _loss(logits: Tensor, numbers: Tensor, name: str) -> float:
    """``- log p(token | tokens before)``, the mean over every token but the first."""
    if len(numbers) < 2:
        raise HeadwiseError(
            who=name,
            what="the text",
            expected="at least two tokens",
            got=f"{len(numbers)}",
            why="The loss is of each token given those before it",
            do="Give a longer text",
        )
    total = 0.0
    for first in range(0, len(numbers) - 1, _ROWS):
        wanted = numbers[first + 1 : first + 1 + _ROWS]
        some = logits[first : first + len(wanted)].float()
        total += float(nn.functional.cross_entropy(some, wanted, reduction="sum"))
    return total / (len(numbers) - 1)


def first_tensor(output: Any, name: str) -> Tensor:  # noqa: ANN401
    """The first tensor of numbers in what a model gives. Raises HeadwiseError if there is none.

    >>> first_tensor({"ids": torch.tensor([1]), "hidden": torch.tensor([0.5])}, "tiny")
    tensor([0.5000])
    """
    parts = output.values() if isinstance(output, Mapping) else output
    for part in parts if isinstance(output, (tuple, list, Mapping)) else [output]:
        if isinstance(part, Tensor) and part.is_floating_point() and part.numel():
            return part
    raise HeadwiseError(
        who=name,
        what="the model's output",
        expected="a tensor of numbers, or a tuple or dictionary with one",
        got=type(output).__name__,
        why="What changes without a head is looked for in it",
        do="Wrap the model so that it returns its output first",
    )


def _vector_change(new: Tensor, old: Tensor) -> float | None:
    if new.dim() != 3 or not bool(new.any() and old.any()):
        return None
    similarity = nn.functional.cosine_similarity(new[0].mean(0), old[0].mean(0), dim=0)
    return max(0.0, 1.0 - float(similarity))
