"""A small corpus in batches of several lengths, one of them padded, and recordings of it."""

import torch
from torch import nn

from headwise.look import record

PADDED = 1  # of the batches


def batches():
    lengths = torch.Generator().manual_seed(5)
    return [
        torch.randn(batch, length, 8, generator=lengths) * 2
        for batch, length in ((2, 9), (3, 5), (1, 70), (2, 9), (1, 1), (2, 17))
    ]


def network():
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False).eval()


@torch.no_grad()
def recording_of(numbers, rows=None, keep=None):
    """What is recorded of some of the batches."""
    model = network()
    with record(model, rows=rows, keep=keep) as recording:
        for number in numbers:
            x = batches()[number]
            hidden = torch.arange(x.shape[1]) >= torch.tensor([[5], [3], [4]]) if number == PADDED else None
            model(x, src_key_padding_mask=hidden)
    return recording


def sums(recording):
    """Every tensor of every layer, by name."""
    return {
        f"{name}: {part}": x
        for name, layer in recording.layers.items()
        for part, x in vars(layer.sums).items()
    }
