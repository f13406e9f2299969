"""How much each head matters to a loss: by one gradient for all, and by removing them one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.core.blocks import wide
from headwise.core.shapes import described
from headwise.look.calls.call import AttentionCall
from headwise.look.calls.watch import watch
from headwise.look.removal.ablate import ablate
from headwise.look.removal.head import Head, HeadLike
from headwise.look.removal.head_importance import HeadImportance
from headwise.look.removal.layers import Layers


def importance(
    model: nn.Module,
    loss: Callable[[], Tensor],
    heads: int | HeadLike | Iterable[HeadLike] | None = None,
    *,
    each: Callable[[Sequence[Head]], Iterable[Head]] = tuple,
) -> HeadImportance:
    """The change of a loss when a head is removed: predicted for every head, measured for those asked for.

    Each head's output is multiplied by a gate g = 1; one backward pass gives ``dL/dg`` of all, and removing a
    head (g = 0) changes the loss by ``-dL/dg`` to first order. Michel et al. 2019, arXiv 1905.10650, section
    3. That is a slope and no promise: it misses what bends, so the change is also measured, by one run of
    ``loss`` with the head's output at zero, for all heads (None), for those named, or for the given number of
    heads whose prediction is largest in size.

    ``loss`` runs the model, on the same data each time, and returns one number that depends on it.
    ``each`` is handed the heads to measure and gives them back one by one: a progress bar fits there.
    Parameters get no gradients. Raises HeadwiseError if ``loss`` returns anything else, if the model runs
    without gradients, if there is no such head, or where a call cannot be changed.

    >>> layer = torch.nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    >>> x = torch.randn(1, 3, 8)
    >>> found = importance(layer, lambda: layer(x, x, x)[0].square().mean(), heads=1)
    >>> found.predicted.shape, int(found.actual.isfinite().sum())
    (torch.Size([1, 2]), 1)
    """
    gates = _Gates()
    with torch.enable_grad(), watch(model, lambda call: None, change=gates) as coverage:
        gated = _checked(loss(), gradient=True)
        predicted = -gates.slopes(gated)
    coverage.changed = 0  # a gate of 1 changes no number
    found = HeadImportance(
        model=type(model).__name__,
        layers=gates.layers.names,
        heads=tuple(gates.layers.heads.values()),
        loss=float(gated.detach()),
        predicted=predicted,
        actual=torch.full_like(predicted, torch.nan),
        coverage=coverage,
    )
    chosen = found.largest(heads) if isinstance(heads, int) else gates.layers.all_of(heads, who="importance")
    return _measured(model, loss, found, chosen, each) if chosen else found


class _Gates:
    """A gate of 1 for every head of every layer, and the slope of a loss at them."""

    def __init__(self) -> None:
        self.layers = Layers()
        self.gates: dict[str, Tensor] = {}

    def __call__(self, call: AttentionCall) -> Tensor:
        self.layers.note(call)
        if not torch.is_grad_enabled():
            raise HeadwiseError(
                who="importance",
                what=f"the call in layer {call.layer or 'the model'}",
                expected="made with gradients on",
                got="one without",
                why="A gate has no slope there",
                do="Take torch.no_grad and torch.inference_mode out of the loss and the model",
            )
        if call.layer not in self.gates:
            like = wide(call.output[:0]).detach()  # a slope added up in half precision would be coarse
            self.gates[call.layer] = like.new_ones(call.heads).requires_grad_()
        return call.output * self.gates[call.layer][:, None, None]

    def slopes(self, loss: Tensor) -> Float[Tensor, "layer head"]:
        """``dL/dg`` in float64, NaN where a layer has fewer heads than another."""
        gates = list(self.gates.values())
        if not gates:
            return torch.zeros(0, 0, dtype=torch.float64)
        found = torch.autograd.grad(loss, gates, allow_unused=True, materialize_grads=True)
        widest = max(len(slope) for slope in found)
        rows = [nn.functional.pad(x.double(), (0, widest - len(x)), value=torch.nan) for x in found]
        return torch.stack([row.cpu() for row in rows])


@torch.no_grad()
def _measured(
    model: nn.Module,
    loss: Callable[[], Tensor],
    found: HeadImportance,
    chosen: Sequence[Head],
    each: Callable[[Sequence[Head]], Iterable[Head]],
) -> HeadImportance:
    """The same with the actual change for the chosen heads."""
    with ablate(model, []):
        base = float(_checked(loss()))
    actual = found.actual.clone()
    for head in each(chosen):
        with ablate(model, head):
            changed = float(_checked(loss()))
        actual[int(head.layer), head.head] = changed - base
    return replace(found, loss=base, actual=actual, noise=abs(found.loss - base))


def _checked(loss: object, *, gradient: bool = False) -> Tensor:
    if isinstance(loss, Tensor) and loss.is_floating_point() and loss.numel() == 1:
        if loss.requires_grad or not gradient:
            return loss.reshape(())
        got = "a number without a gradient"
    else:
        got = described(loss)
    raise HeadwiseError(
        who="importance",
        what="what loss returns",
        expected="a tensor of one number, with a gradient",
        got=got,
        why="Its slope at each head's gate says what the head does to it",
        do="Return a mean of losses, without item(), detach() and torch.no_grad",
    )
