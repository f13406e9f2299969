"""Padding: masks that miss the pads, positions that count them, and rows that they spoil."""

import torch

from headwise.check import left_padding, pad_content, right_padding
from tests.faults.fault import Fault
from tests.faults.parts import Layer, attend, causal, real_positions, turn, vectors, waves


def padded(mask):
    """A right-padded layer whose scores are masked by ``mask(scores, keep)``."""

    def check(dtype):
        layer = Layer(dtype)

        def f(x, keep):
            q, k, v = layer.project(x)
            scores = mask((q @ k.mT).float() / q.shape[-1] ** 0.5, keep)
            return layer.merge(scores.softmax(-1).to(v.dtype) @ v)

        return right_padding(f, vectors(dtype))

    return check


def upside_down(scores, keep):
    return scores.masked_fill(keep[:, None, None], -1e30)


def finite(scores, keep):
    return scores + torch.where(keep, 0.0, -10_000.0)[:, None, None]


def first_row_for_all(scores, keep):
    return scores.masked_fill(~keep[:1, None, None], -torch.inf)


def queries_hidden(scores, keep):
    return scores.masked_fill(~keep[:, None, :, None], -1e30)


def positions_of(make):
    """Absolute positions added to a left-padded input, as ``make(keep)`` counts them."""

    def check(dtype):
        layer = Layer(dtype)

        def f(x, keep):
            x = x + waves(make(keep)).to(x)
            visible = causal(x.shape[1]) & keep[:, None, None]
            return layer.merge(attend(*layer.project(x), visible))

        return left_padding(f, vectors(dtype))

    return check


def every_place(keep):
    return torch.arange(keep.shape[1])


def first_row(keep):
    return real_positions(keep)[:1]


def empty_row_spreads(dtype):
    """A left pad sees no key, so it is not a number from the first layer on, and is a value in the second."""
    first, second = Layer(dtype, 0), Layer(dtype, 1)

    def softmax(q, k, v, visible):
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~visible, -torch.inf)
        return scores.softmax(-1) @ v

    def f(x, keep):
        visible = causal(x.shape[1]) & keep[:, None, None]
        x = x + first.merge(softmax(*first.project(x), visible))
        return x + second.merge(softmax(*second.project(x), visible))

    return left_padding(f, vectors(dtype))


def rows_not_written(prove):
    """A rotary kernel that writes as many places as there are real tokens, the first ones.

    The others keep what the memory held before: here, the queries in another order.
    """

    def check(dtype):
        layer = Layer(dtype)

        def f(x, keep):
            q, k, v = layer.project(x)
            positions, rotated = real_positions(keep), q.flip(2)
            for row, count in enumerate(keep.sum(-1).tolist()):
                rotated[row, :, :count] = turn(q, positions)[row, :, :count]
            visible = causal(x.shape[1]) & keep[:, None, None]
            return layer.merge(attend(rotated, turn(k, positions), v, visible))

        return prove(f, vectors(dtype))

    return check


FAULTS = [
    Fault("padding mask upside down", "right padding", "LLMs-from-scratch#1061", padded(upside_down)),
    Fault("pads get -10000", "right padding", "flash-attention SelfAttention", padded(finite)),
    Fault(
        "the first row's padding serves all", "right padding", "attention-gym#190", padded(first_row_for_all)
    ),
    Fault("padding hides queries", "right padding", "hyunwoongko/transformer#40", padded(queries_hidden)),
    Fault("positions count the pads", "left padding", "unsloth#3699", positions_of(every_place)),
    Fault("positions of the first row for all", "left padding", "nnsight#672", positions_of(first_row)),
    Fault("a pad without keys is not a number", "left padding", "pytorch#41508", empty_row_spreads),
    Fault("rows left unwritten", "left padding", "fla#967", rows_not_written(left_padding)),
    Fault("rows left unwritten, pads shine through", "pad content", "fla#967", rows_not_written(pad_content)),
]
