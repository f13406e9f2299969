"""What is known of how much each head matters, and how it reads."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.look.calls.coverage import Coverage
from headwise.look.removal.head import Head

_SHOWN = 10


@dataclass(frozen=True, eq=False)
class HeadImportance:
    """The change of a loss when a head is removed, a row for each layer, in float64.

    - ``layers`` are the names of the attention layers in the order they are first called, ``heads`` how many
      each has; a row is NaN beyond that.
    - ``loss`` is that of the whole model. ``predicted`` is the change to first order, ``actual`` the one
      measured, NaN where it was not.
    - ``noise`` is how much the loss of the whole model differed between two runs, NaN if there was only one:
      changes no larger than that say nothing.
    """

    model: str
    layers: tuple[str, ...]
    heads: tuple[int, ...]
    loss: float
    predicted: Float[Tensor, "layer head"]
    actual: Float[Tensor, "layer head"]
    coverage: Coverage
    noise: float = float("nan")

    def largest(self, count: int, *, measured: bool = False) -> tuple[Head, ...]:
        """The heads with the largest change in size, predicted or measured, the largest first.

        Raises HeadwiseError for a count below 0.

        >>> one = torch.tensor([[0.1, -0.5]])
        >>> [str(head) for head in HeadImportance("", ("a",), (2,), 1.0, one, one, Coverage("")).largest(2)]
        ['0.1', '0.0']
        """
        if isinstance(count, bool) or count < 0:
            raise HeadwiseError(
                who="importance",
                what="the number of heads",
                expected="a whole number, 0 or more",
                got=repr(count),
                why="It says for how many heads the change is measured",
                do="Pass None for all, or 0 for the prediction alone",
            )
        sizes = (self.actual if measured else self.predicted).abs()
        known = [
            Head(at, head) for at in range(len(self.layers)) for head in range(self.heads[at])
            if not sizes[at, head].isnan()
        ]  # fmt: skip
        return tuple(sorted(known, key=lambda head: -float(sizes[int(head.layer), head.head]))[:count])

    def __str__(self) -> str:
        measured = int((~self.actual.isnan()).sum())
        lines = [
            f"{self.model}: loss {self.loss:.4f}; its change when a head is removed, measured for {measured} "
            f"of {sum(self.heads)} heads",
            f"{'head':>8} {'predicted':>11} {'actual':>11}  layer",
        ]
        for head in self.largest(_SHOWN, measured=measured > 0):
            at = int(head.layer), head.head
            actual = "" if self.actual[at].isnan() else f"{float(self.actual[at]):+.4f}"
            name = self.layers[at[0]] or "the model"
            lines.append(f"{head!s:>8} {float(self.predicted[at]):>+11.4f} {actual:>11}  {name}")
        if measured:
            lines.append(f"two runs of the whole model differed by {self.noise:.1e}")
        return "\n".join([*lines, str(self.coverage)])
