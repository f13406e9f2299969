"""Functions of queries, keys and values: attention itself, without projections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from headwise.check.inputs import Vectors
from headwise.check.subjects.arguments import described_by
from headwise.check.subjects.convention import Convention, NotThisWayError
from headwise.check.subjects.outputs import in_words
from headwise.check.subjects.signature import Thing, mask_names
from headwise.check.subjects.subject import Subject, device_and_dtype

HEADS, WIDTH = 2, 8
_LAYOUTS = {"[batch heads length head_dim]": False, "[batch length heads head_dim]": True}


@dataclass(frozen=True)
class OfHeads(Convention):
    """Cuts sequences ``[batch length 3 * heads * head_dim]`` into q, k and v, and joins the heads.

    >>> attend = torch.nn.functional.scaled_dot_product_attention
    >>> OfHeads()(attend, torch.zeros(2, 5, 48)).shape
    torch.Size([2, 5, 16])
    """

    heads_last: bool = False

    def raw(self, thing: Thing, x: Tensor, **more: Thing) -> Thing:
        """The heads' outputs side by side; anything but a tensor like q is left as it is."""
        q, k, v = (part.reshape(*x.shape[:2], HEADS, WIDTH) for part in x.chunk(3, dim=-1))
        if not self.heads_last:
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        output = thing(q, k, v, **{**self.fixed, **more})
        output = output[0] if isinstance(output, tuple | list) and output else output
        if not isinstance(output, Tensor) or output.shape != q.shape:
            raise NotThisWayError(f"{in_words(output)} for q, k and v of shape {list(q.shape)}")
        return (output if self.heads_last else output.transpose(1, 2)).flatten(-2)

    def words(self, name: str) -> str:
        """The call, as Python writes it."""
        return f"{name}(q, k, v{''.join(f', {key}={value!r}' for key, value in self.fixed.items())})"


def of_heads(thing: Thing, name: str) -> Subject | None:
    """Attention on q, k and v, or None if it cannot be called so.

    >>> of_heads(torch.nn.functional.scaled_dot_product_attention, "sdpa").assumed
    ['called as function(q, k, v), each [batch heads length head_dim]', \
'keep is passed as attn_mask, as [batch 1 1 key], True shows']
    """
    inputs = Vectors(3 * HEADS * WIDTH, device_and_dtype(thing)[1])
    x = inputs.make(2, 5, seed=0)
    for layout, heads_last in _LAYOUTS.items():
        convention = OfHeads(heads_last=heads_last)
        try:
            convention.settled(thing, x)
        except NotThisWayError:
            continue
        if _mixes_heads(partial(convention, thing), x):
            continue
        assumed = [f"called as {convention.words('function')}, each {layout}"]
        subject = described_by(Subject(name, thing, inputs, convention.plain, assumed), convention)
        if not heads_last:
            subject.attend = _attend(subject, mask_names(thing))
        return subject
    return None


@torch.no_grad()
def _mixes_heads(f: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether what one head is given reaches another, as it does where heads are taken for places."""
    other = x.clone().reshape(*x.shape[:2], 3, HEADS, WIDTH)
    other[:, :, :, 1] += 1.0
    apart = (f(other.flatten(-3)) - f(x)).reshape(*x.shape[:2], HEADS, WIDTH)
    return bool((apart[:, :, 0] != 0).any())


def _attend(subject: Subject, names: list[str]) -> Callable[..., Tensor]:
    """``attend(q, k, v, mask)``, counted; the mask goes to the argument that was understood."""

    def attend(q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> Tensor:
        subject.calls += 1
        output = subject.thing(q, k, v, **({names[0]: mask[0]} if mask and names else {}))
        first: Tensor = output[0] if isinstance(output, tuple | list) else output
        return first

    return attend
