"""Queries and keys that are parts of a wider row, in any order in memory: only their numbers count.

A pair of neighbours is read as one complex number, which does not lie anywhere: at an even offset, in steps
of two.
"""

import pytest
import torch

from headwise.layers import AxialRotary, MultimodalRotary, Rotary
from tests.layers.encodings import words
from tests.layers.rotary_family import ROTARY_FAMILY, AlongLine

HEADS, HEAD_DIM, LENGTH = 2, 8, 5
FORMS = {
    **ROTARY_FAMILY,
    "rotary, halves": lambda *_: Rotary(pairs="halves"),
    "rotary, neighbours": lambda *_: Rotary(pairs="neighbours"),
    "rotary, three pairs": lambda *_: Rotary(pairs="neighbours", dims=6),
    "axial, halves": lambda *_: AlongLine(AxialRotary(pairs="halves"), [2, 1]),
    "axial, neighbours": lambda *_: AlongLine(AxialRotary(pairs="neighbours"), [2, 1]),
    "multimodal, neighbours": lambda *_: AlongLine(MultimodalRotary((2, 2), pairs="neighbours"), [2, 1]),
}
# a view with other numbers around it: [batch heads length head_dim] -> the same numbers, lying otherwise
VIEWS = {
    "odd offset, odd strides": lambda x: torch.nn.functional.pad(x, (1, 2))[..., 1 : 1 + HEAD_DIM],
    "odd offset": lambda x: torch.nn.functional.pad(x, (3, 1))[..., 3 : 3 + HEAD_DIM],
    "even offset, odd strides": lambda x: torch.nn.functional.pad(x, (2, 1))[..., 2 : 2 + HEAD_DIM],
    "every other number": lambda x: x.repeat_interleave(2, dim=-1)[..., ::2],
    "the last axis first": lambda x: x.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0),
    "heads behind the length": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "one number everywhere": lambda x: x[..., :1].expand(x.shape),
}


@pytest.mark.parametrize("length", [LENGTH, 1])
@pytest.mark.parametrize("name", FORMS)
def test_a_view_turns_as_its_copy(name, length):
    """To a rounding of each product: other instructions turn numbers side by side and numbers apart."""
    encoding, positions = (
        FORMS[name](HEADS * HEAD_DIM, HEADS).requires_grad_(False),
        torch.arange(7, 7 + length),
    )
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        q, k = words(2, 1, HEADS, length, HEAD_DIM).to(dtype)
        for view, lying in VIEWS.items():
            views, copies = (lying(q), lying(k)), (lying(q).clone(), lying(k).clone())
            whole = encoding.rotate(*(x.contiguous() for x in copies), positions, positions)
            for ours, theirs in zip(encoding.rotate(*views, positions, positions), whole, strict=True):
                bound = 2 * torch.finfo(dtype).eps * float(theirs.abs().max())
                assert (ours - theirs).abs().max() <= bound, view
            assert all(torch.equal(x, y) for x, y in zip(views, copies, strict=True)), view


@pytest.mark.parametrize("view", VIEWS)
def test_gradients_reach_the_view(view):
    encoding, positions = Rotary(pairs="neighbours"), torch.arange(LENGTH)
    x = words(1, HEADS, LENGTH, HEAD_DIM).requires_grad_()
    ours, theirs = VIEWS[view](x), VIEWS[view](x).clone().contiguous()
    upstream = words(*x.shape)
    grads = [
        torch.autograd.grad((encoding.turn(y, positions) * upstream).sum(), x)[0] for y in (ours, theirs)
    ]
    torch.testing.assert_close(*grads, rtol=0.0, atol=1e-12)


def test_compiled_whole_on_a_view():
    encoding, positions = Rotary(pairs="neighbours"), torch.arange(LENGTH)
    x = words(1, HEADS, LENGTH, HEAD_DIM + 1)
    turn = lambda x: encoding.turn(x[..., 1:], positions)  # noqa: E731
    compiled = torch.compile(turn, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), turn(x), rtol=0.0, atol=1e-12)
    torch.compiler.reset()
