"""Removes heads from a running model: everything else of it computes what it always does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.look.calls.call import AttentionCall
from headwise.look.calls.coverage import Coverage
from headwise.look.calls.watch import watch
from headwise.look.removal.head import Head, HeadLike, as_heads
from headwise.look.removal.layers import Layers
from headwise.look.removal.replacement import Replacement, Zero

_ZERO = Zero()


@contextmanager
def ablate(
    model: nn.Module, heads: HeadLike | Iterable[HeadLike], to: Replacement = _ZERO
) -> Iterator[Coverage]:
    """A block in which some heads of a model give ``to`` in place of their output.

    Heads are called ``Head(3, 5)``, ``"3.5"``, ``"encoder.layer.0.attention:5"``. ``to`` is ``Zero()``,
    ``Mean()``, ``Uniform()``, or any callable as ``Replacement`` says. The head's output is what goes into
    the output projection: every other head stays as it is to the last bit there, and weights that the model
    itself returns are not touched. Gradients flow through what replaces a head. What the coverage says is not
    seen is not changed either. After the block the model is as before.

    Michel et al. 2019, arXiv 1905.10650, section 2. Raises HeadwiseError if the model has no such head or
    layer, at the call or when the block ends, and where a call cannot be changed, as in compiled code.

    >>> layer = torch.nn.MultiheadAttention(8, num_heads=2, bias=False, batch_first=True)
    >>> x = torch.randn(1, 3, 8)
    >>> with ablate(layer, ["0.0", "0.1"]) as coverage:
    ...     output, _ = layer(x, x, x)
    >>> bool(output.any()), coverage.changed
    (False, 1)
    """
    ablation = _Ablation(as_heads(heads), to)
    with watch(model, lambda call: None, change=ablation) as coverage:
        yield coverage
    ablation.layers.check(ablation.heads, who="ablate")


class _Ablation:
    """What ``watch`` asks for every call."""

    def __init__(self, heads: Sequence[Head], to: Replacement) -> None:
        if not callable(to) or isinstance(to, type):
            raise HeadwiseError(
                who="ablate",
                what="to",
                expected="a Replacement such as Zero() or Mean()",
                got=repr(to),
                why="It is called to make the new output of the heads",
                do="Pass an object, with its brackets",
            )
        self.heads, self.to, self.layers = heads, to, Layers()

    def __call__(self, call: AttentionCall) -> Tensor | None:
        number = self.layers.note(call)
        here = [head for head in self.heads if head.layer in (number, call.layer)]
        if not here:
            return None
        self.layers.check(here, who="ablate")
        chosen = sorted({head.head for head in here})
        new = self.to(call, chosen)
        batch, _, queries, value_dim = call.output.shape
        if new.shape != (batch, len(chosen), queries, value_dim):
            raise HeadwiseError(
                who="ablate",
                what="what replaces the output",
                expected=f"of shape {[batch, len(chosen), queries, value_dim]}",
                got=str(list(new.shape)),
                why=f"It stands for {len(chosen)} heads of layer {call.layer or 'the model'}",
                do="Return a row for each query of each head asked for",
            )
        index = torch.tensor(chosen, device=call.output.device)
        return call.output.index_copy(1, index, new.to(call.output.dtype))
