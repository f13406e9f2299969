"""What a recording refuses, and that the model is never disturbed by being recorded."""

import pytest
import torch
import transformers
from torch import nn

from headwise.core import HeadwiseError
from headwise.look import record
from tests.look.models import Split, Stack, by_hand, dense, exact, fused
from tests.look.plainly import Text
from tests.look.recorded import check
from tests.look.test_hugging_face import inputs, model


@torch.no_grad()
def test_the_first_layer_and_head_with_nan_are_named():
    network = model("Llama", "sdpa")  # six heads of 4 on two
    network.layers[1].self_attn.q_proj.weight[3 * 4] = torch.nan
    with pytest.raises(HeadwiseError) as caught, record(network) as recording:
        output = network(**inputs("Llama", None)).last_hidden_state
    assert "got NaN or infinity in the queries of layer 1 (layers.1.self_attn), head 3, token 0" in str(
        caught.value
    )
    assert exact(output, network(**inputs("Llama", None)).last_hidden_state)
    first, second = recording.layers.values()
    assert first.sums.rows[0, 0] == 14
    assert second.sums.rows[0, 0] == 0


@torch.no_grad()
def test_keys_are_named_by_the_first_query_head_that_reads_them():
    network = model("Llama", "sdpa")
    network.layers[0].self_attn.k_proj.weight[4:] = torch.inf
    with (
        pytest.raises(HeadwiseError, match=r"in the keys of layer 0 \(layers.0.self_attn\), head 3, token 0"),
        record(network),
    ):
        network(**inputs("Llama", None))


@torch.no_grad()
def test_nan_in_the_scores_of_a_hand_written_model():
    network = Stack(by_hand)
    network.second.qkv.weight[4] = torch.nan  # a query of head 1
    words = r"in the queries of layer 1 \(second\), head 1, token 0"
    with pytest.raises(HeadwiseError, match=words), record(network):
        network(torch.randn(1, 6, 8))


@torch.no_grad()
def test_nan_in_padding_is_none_of_ours():
    attention = nn.MultiheadAttention(8, num_heads=2, batch_first=True)
    x = torch.randn(2, 5, 8)
    x[1, 3:] = torch.nan
    hidden = torch.arange(5) > torch.tensor([[4], [2]])
    with record(attention) as recording:
        attention(x, x, x, key_padding_mask=hidden, need_weights=False)
    assert recording.layers[""].sums.rows[0].tolist() == [8.0, 8.0]
    assert not recording.mean("entropy").isnan().any()


@pytest.mark.parametrize("network", [nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())])
def test_a_model_without_attention(network):
    with pytest.raises(HeadwiseError) as caught, record(network):
        network(torch.zeros(1, 4))
    assert "no attention at all: 0 calls" in str(caught.value)


def test_mamba():
    config = transformers.MambaConfig(vocab_size=30, hidden_size=16, state_size=4, num_hidden_layers=1)
    network = transformers.MambaModel(config).eval()
    with pytest.raises(HeadwiseError, match="MambaModel: no attention at all"), record(network):
        network(torch.tensor([[3, 4, 5]]))


def test_a_model_that_was_not_run():
    with pytest.raises(HeadwiseError, match="the model must be run in the block"), record(Split(fused)):
        pass


def test_the_models_own_error_comes_through():
    class StrangeError(RuntimeError):
        pass

    def attend(q, k, v):
        fused(q, k, v)
        raise StrangeError("mine")

    network = Split(attend)
    with pytest.raises(StrangeError, match="mine"), record(network):
        network(torch.randn(1, 3, 8))
    with pytest.raises(StrangeError, match="mine"), record(network):
        network(torch.full((1, 3, 8), torch.nan))
    assert not network._forward_pre_hooks


def test_gradients_are_those_without():
    x, networks = torch.randn(2, 6, 8), []
    for watched in (False, True):
        torch.manual_seed(0)
        network = Stack(by_hand)
        if watched:
            with record(network):
                network(x).square().sum().backward()
        else:
            network(x).square().sum().backward()
        networks.append(network)
    for first, second in zip(*(network.parameters() for network in networks), strict=True):
        assert torch.equal(first.grad, second.grad)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@torch.no_grad()
def test_other_dtypes(dtype):
    network, x = Split(fused).to(dtype), torch.randn(2, 6, 8, dtype=dtype)
    plain = network(x)
    with record(network) as recording:
        assert torch.equal(network(x), plain)
    q, k, _ = network.qkv(x).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
    p = dense(q, k, 0.5, torch.ones(6, 6).bool().tril())
    check(recording.layers[""], [Text(one) for one in p])  # of the queries and keys as the dtype rounds them


@torch.no_grad()
def test_under_vmap():
    network, x = Split(by_hand), torch.randn(3, 2, 6, 8)
    with record(network) as recording:
        mapped = torch.vmap(network)(x)
    with record(network) as plain:
        wanted = network(x.flatten(0, 1))
    torch.testing.assert_close(mapped.flatten(0, 1), wanted)
    torch.testing.assert_close(recording.layers[""].sums.total, plain.layers[""].sums.total)
    assert recording.documents == 6
