"""Masks: ways to let a query see what it must not, or to hide what it must see."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from headwise.check import causality, equivariance, receptive_field
from tests.faults.fault import Fault
from tests.faults.parts import Layer, attend, causal, turn, vectors


def lost_in_one_class(dtype):
    """One of several classes hands on no mask at all."""

    class Base(Layer):
        mask = None

        def __call__(self, x):
            return self.merge(attend(*self.project(x), self.mask))

    return causality(Base(dtype), vectors(dtype))


def one_too_far(dtype):
    def f(x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(2)
        return layer.merge(attend(*layer.project(x), ~hidden))

    layer = Layer(dtype)
    return causality(f, vectors(dtype))


def lost_with_weights(dtype):
    layer = Layer(dtype)

    def f(x, need_weights):
        q, k, v = layer.project(x)
        if need_weights:
            return layer.merge((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v)
        return layer.merge(scaled_dot_product_attention(q, k, v, is_causal=True))

    ways = {"plain": lambda x: f(x, False), "weights asked": lambda x: f(x, True)}
    return causality(ways, vectors(dtype))


def lost_with_dropout_rate(dtype):
    """The fused path is not taken when a dropout rate is set, and the other one knows no causal flag."""
    layer = Layer(dtype)

    def f(x, rate):
        q, k, v = layer.project(x)
        return layer.merge(attend(q, k, v, None if rate else causal(x.shape[1])))

    ways = {"no dropout": lambda x: f(x, 0.0), "dropout rate 0.1, in evaluation": lambda x: f(x, 0.1)}
    return causality(ways, vectors(dtype))


def lost_with_bias(dtype):
    layer = Layer(dtype)

    def f(x, bias=None):
        q, k, v = layer.project(x)
        return layer.merge(attend(q, k, v, causal(x.shape[1]) if bias is None else None, bias))

    ways = {"plain": f, "bias given": lambda x: f(x, torch.zeros(x.shape[1], x.shape[1]))}
    return causality(ways, vectors(dtype))


def override_not_handed_on(dtype):
    layer = Layer(dtype)

    def f(x, causal_layer, causal_call=None, flash=True):
        wanted = causal_layer if causal_call is None else causal_call
        visible = causal(x.shape[1]) if (causal_layer if flash else wanted) else None
        return layer.merge(attend(*layer.project(x), visible))

    ways = {
        "causal layer": lambda x: f(x, True),
        "causal call": lambda x: f(x, False, True, flash=False),
        "causal call, fused": lambda x: f(x, False, True),
    }
    return causality(ways, vectors(dtype))


def mask_in_the_dropout_slot(dtype):
    layer = Layer(dtype)

    def attention(q, k, v, dropout=None, visible=None):
        return attend(q, k, v, visible)

    def f(x):
        return layer.merge(attention(*layer.project(x), causal(x.shape[1])))

    return causality(f, vectors(dtype))


def memory_seen_causally(dtype):
    """Cross-attention with the mask of self-attention: each query sees only the first of the memory."""
    layer = Layer(dtype)

    def f(memory):
        queries = torch.linspace(-1, 1, memory.shape[1])[:, None] * torch.ones(
            len(memory), 1, memory.shape[2]
        )
        q, k, v = layer.project(queries.to(memory), memory)
        return layer.merge(attend(q, k, v, causal(memory.shape[1])))

    return receptive_field(f, vectors(dtype), causal=False)


def turned_along_heads(dtype):
    """Rotary takes the axis of heads for that of places, so that no place differs from another."""
    layer = Layer(dtype)

    def f(x):
        q, k, v = layer.project(x)
        q, k = (turn(part.transpose(1, 2), torch.arange(part.shape[1])).transpose(1, 2) for part in (q, k))
        return layer.merge(attend(q, k, v))

    return equivariance(f, vectors(dtype), order_blind=False)


def lost_in_training(dtype):
    """Training takes another path, which sees the labels."""

    class Trained(Layer):
        training = False

        def __call__(self, x):
            visible = None if self.training else causal(x.shape[1])
            return self.merge(attend(*self.project(x), visible))

    evaluated, trained = Trained(dtype), Trained(dtype)
    trained.training = True
    return causality({"evaluation": evaluated, "training": trained}, vectors(dtype))


def lost_without_a_mask(dtype):
    """The causal mask is joined to the mask that is passed, and forgotten if none is."""
    layer = Layer(dtype)

    def f(x, mask=None):
        visible = None if mask is None else mask & causal(x.shape[1])
        return layer.merge(attend(*layer.project(x), visible))

    ways = {"mask given": lambda x: f(x, torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)), "plain": f}
    return causality(ways, vectors(dtype))


FAULTS = [
    Fault("no mask in one of the classes", "causality", "transformers#48745", lost_in_one_class),
    Fault("the next token is seen", "causality", "octo#75", one_too_far),
    Fault("training sees the labels", "causality", "transformers#31673", lost_in_training),
    Fault("causal flag lost when weights are asked for", "causality", "pytorch#99282", lost_with_weights),
    Fault("causal flag lost with a dropout rate", "causality", "keras#23038", lost_with_dropout_rate),
    Fault("causal flag lost when a bias is given", "causality", "xformers#104", lost_with_bias),
    Fault("causal flag lost without a mask", "causality", "xformers#103", lost_without_a_mask),
    Fault(
        "causal override ignored when fused", "causality", "x-transformers attend.py", override_not_handed_on
    ),
    Fault("mask passed in the place of dropout", "causality", "equinox 69c8fb5", mask_in_the_dropout_slot),
    Fault(
        "memory seen through a causal mask", "receptive field", "TransformerEngine#565", memory_seen_causally
    ),
    Fault("rotary turns along the heads", "equivariance", "open_lm#4", turned_along_heads),
]
