"""Rollout against products of the dense matrices of the eager model."""

import pytest
import torch
from torch import nn

from headwise.core import HeadwiseError, map_pieces
from headwise.look import InMemory, record, rollout
from headwise.models import open_text_model
from tests.core.test_memory import LargestTensor

TEXT = "The committee that the senators trusted had finally read the long report."


def dense_rollout(weights, token):
    """The whole product of (P + I) / 2 in float64, from the last layer down; one row for each layer."""
    share = torch.eye(weights.shape[-1], dtype=torch.float64)[token]
    rows = []
    for layer in reversed(weights.double().mean(1)):
        share = share @ (layer + torch.eye(len(layer), dtype=torch.float64)) / 2
        rows.append(share)
    return torch.stack(rows[::-1])


@pytest.mark.parametrize("token", [0, 5, -1])
def test_a_trained_model_against_the_dense_product(token):
    model = open_text_model()
    eager = open_text_model(attention="eager").read(TEXT)
    with torch.no_grad(), record(model.network, keep=InMemory()) as recording:
        model.network(**model.encode(TEXT).inputs)
    found = rollout(recording, token)
    torch.testing.assert_close(found, dense_rollout(eager.weights, token), rtol=0, atol=1e-5)
    some = rollout(recording, token, layers=[1, recording.names[4]])
    torch.testing.assert_close(some, dense_rollout(eager.weights[[1, 4]], token), rtol=0, atol=1e-5)


class Causal(nn.Module):
    """Causal layers that look at different widths."""

    def forward(self, x):
        for scale in (0.5, 1.0, 2.0):
            x = x + nn.functional.scaled_dot_product_attention(scale * x, x, x, is_causal=True)
        return x


def kept(length):
    with torch.no_grad(), record(Causal(), keep=InMemory()) as recording:
        Causal()(torch.randn(1, 2, length, 8))
    return recording


def test_a_row_that_a_sink_shortens_is_scaled_with_its_residual():
    recording = kept(4)
    plain = recording.map(2)
    recording.kept[-1].tensors["sinks"] = plain.log_normalizer()[..., None]  # each takes half of its row
    p = plain.dense()[0].mean(0).double() / 2
    want = (p[3] + torch.eye(4)[3]) / 1.5
    torch.testing.assert_close(rollout(recording, 3)[2], want, rtol=0, atol=1e-6)


def test_no_matrix_is_built(monkeypatch):
    length = 512
    recording = kept(length)
    monkeypatch.setattr(map_pieces, "_PIECE_ELEMENTS", 2 * length * length // 16)
    with LargestTensor() as largest:
        rollout(recording, -1)
    assert largest.numbers <= 2 * length * length // 16


@pytest.mark.parametrize("token", [4, -5])
def test_a_token_that_is_not_there(token):
    with pytest.raises(HeadwiseError, match=rf"rollout: the token must be -4 to 3, got {token}\."):
        rollout(kept(4), token)


def test_layers_of_other_lengths_are_no_stack():
    class Cross(nn.Module):
        def forward(self, x, memory):
            return nn.functional.scaled_dot_product_attention(x, memory, memory)

    with record(Cross(), keep=InMemory()) as recording:
        Cross()(torch.randn(1, 2, 3, 8), torch.randn(1, 2, 5, 8))
    with pytest.raises(HeadwiseError, match="self-attention over 5 tokens, got 3 queries and 5 keys"):
        rollout(recording, 0)
