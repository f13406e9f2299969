"""torch.export: the exported program gives what the layer gives, at other batch sizes and lengths too."""

import pytest
import torch
from torch import nn
from torch.export import Dim, export

from headwise.core import Causal, Padding, SlidingWindow
from tests.layers.encodings import ENCODINGS, layer_with, words

# the same operations in the same order, but for a sum here and there
CLOSE = {"rtol": 0.0, "atol": 64 * torch.finfo(torch.float64).eps}
LENGTHS = {"batch": Dim("batch", max=64), "length": Dim("length", min=4, max=512)}  # a block has 512 queries


class Padded(nn.Module):
    """A layer whose padding is an input: left padding, with positions that do not count it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, keep):
        padding = Padding(keep)
        return self.layer(x, mask=padding, positions=padding.positions())


@torch.no_grad()
@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_for_any_batch_and_length(name):
    layer = layer_with(name, mask=Causal())
    shapes = ({0: LENGTHS["batch"], 1: LENGTHS["length"]},)
    program = export(layer, (words(2, 6, 8),), dynamic_shapes=shapes).module()
    for batch, length in ((2, 6), (3, 11), (1, 300)):
        x = words(batch, length, 8)
        torch.testing.assert_close(program(x), layer(x), **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("name", ["rotary, halves", "alibi"])
def test_padding_as_an_input(name):
    model = Padded(layer_with(name, mask=Causal() & SlidingWindow(4)))
    axes = {0: LENGTHS["batch"], 1: Dim("length", min=6, max=512)}
    program = export(model, (words(2, 8, 8), torch.ones(2, 8, dtype=torch.bool)), dynamic_shapes=(axes, axes))
    for batch, length in ((2, 8), (3, 20)):
        x, keep = words(batch, length, 8), torch.arange(length) >= torch.arange(batch)[:, None] * 5
        torch.testing.assert_close(program.module()(x, keep), model(x, keep), **CLOSE)
