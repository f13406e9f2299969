"""LogCPB in compiled code: the operator that reads offsets, its gradient by hand, and how often it asks.

What it answers is held to plain loops in float64, its gradient to differences of its values.
"""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.export import export

from headwise.core import Causal, blocks
from headwise.layers import LogCPB, MultiHeadAttention
from headwise.layers.positions import log_cpb_compiled, log_cpb_network
from tests.layers.oracles import distances as expected

HEADS, WINDOW, WIDTH = 2, (4, 3), 5
PATCHES = torch.cartesian_prod(torch.arange(4), torch.arange(3))
FEW = {
    "all patches": (PATCHES, PATCHES),
    "each row its own": (torch.stack((PATCHES, PATCHES.flip(0) + 7)), torch.stack((PATCHES, PATCHES * 2))),
    "keys alone in a batch": (PATCHES[5:9], torch.stack((PATCHES, PATCHES - 3)).int()),
    "more offsets than pairs": (torch.tensor([[0, 0], [10**6, 5]]), torch.tensor([[0, 0], [3, -(10**6)]])),
}
everywhere = pytest.mark.parametrize("at", FEW.values(), ids=FEW)


@pytest.fixture(autouse=True)
def _forget_what_was_compiled():
    torch.compiler.reset()
    yield
    torch.compiler.reset()  # or torch takes the lengths of the next file for ones that vary


def weights(dtype=torch.float64):
    shapes = (WIDTH, 2), (WIDTH,), (HEADS, WIDTH)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def layer_of(dtype):
    position = LogCPB(HEADS, WINDOW, width=WIDTH)
    return MultiHeadAttention(8, HEADS, position=position, mask=Causal()).to(dtype)


def passed(layer, call, x, positions):
    """The output, and the gradients of the network's three weights."""
    output = call(x, positions=positions)
    return output.detach(), *torch.autograd.grad(output.square().sum(), list(layer.position.parameters()))


@everywhere
def test_the_operator_is_its_formula(at):
    given = weights()
    found = log_cpb_compiled.bias_in_one_step(*at, list(WINDOW), *given)
    numbers = [weight.tolist() for weight in given]
    rows = [x.expand(len(found), *x.shape[-2:]).tolist() for x in at]
    exact = [
        [[expected.log_cpb(query, key, WINDOW, *numbers) for key in keys] for query in queries]
        for queries, keys in zip(*rows, strict=True)
    ]
    exact = torch.tensor(exact, dtype=torch.float64).permute(0, 3, 1, 2)
    # a dozen terms of size 1, times 16; an offset of 10**6 is a term of 10
    torch.testing.assert_close(found, exact, rtol=0.0, atol=1e-12)


@everywhere
def test_the_gradient_is_the_slope(at):
    def of(*given):
        return log_cpb_compiled.bias_in_one_step(*at, list(WINDOW), *given)

    assert torch.autograd.gradcheck(of, weights())


@pytest.mark.parametrize("name", ["each row its own", "more offsets than pairs"])
def test_both_operators_keep_what_they_promise_to_torch(name):
    given = (*FEW[name], list(WINDOW), *weights())
    torch.library.opcheck(log_cpb_compiled.bias_in_one_step, given)
    gradient = torch.randn_like(log_cpb_compiled.bias_in_one_step(*given))
    given = (gradient, *(x.detach() if isinstance(x, torch.Tensor) else x for x in given))
    torch.library.opcheck(log_cpb_compiled._gradient_in_one_step, given)


@pytest.mark.parametrize(("dtype", "recomputed"), [(torch.float32, False), (torch.float64, True)])
def test_compiled_it_is_what_it_is_and_one_graph(monkeypatch, dtype, recomputed):
    graphs = []

    def counted(graph, inputs):
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    if recomputed:
        monkeypatch.setattr(blocks, "_KEPT_ELEMENTS", 0)
    layer = layer_of(dtype)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=aot_autograd(fw_compiler=counted))
    # sums of some dozen terms, of about 100 where they are largest, in another order
    close = {"rtol": 0.0, "atol": 2**12 * torch.finfo(dtype).eps}
    for length in (12, 9):
        x, positions = torch.randn(2, length, 8, dtype=dtype), PATCHES[:length].clone()
        both = (passed(layer, call, x, positions) for call in (compiled, layer))
        for found, exact in zip(*both, strict=True):
            torch.testing.assert_close(found, exact, **close)
            assert exact.any()
    assert len(graphs) == 2  # one forward, one backward, for both lengths


def test_compiled_code_asks_for_each_offset_once(monkeypatch):
    """64 patches have 4,096 pairs and 225 offsets."""
    asked, ask = [], log_cpb_network._asked

    def noted(offsets, network):
        asked.append(tuple(offsets.shape))
        return ask(offsets, network)

    monkeypatch.setattr(log_cpb_network, "_asked", noted)
    layer, x = layer_of(torch.float32), torch.randn(1, 64, 8)
    patches = torch.cartesian_prod(torch.arange(8), torch.arange(8))
    passed(layer, torch.compile(layer, fullgraph=True, backend="eager"), x, patches)
    assert asked == [(225, 2), (225, 2)]  # forward and backward


def test_autocast_rounds_nothing_of_it():
    position, q = layer_of(torch.float32).position, torch.zeros(1, HEADS, 12, 4, dtype=torch.bfloat16)

    def passed(call):
        bias = call(q, q, PATCHES, PATCHES, None)
        return bias, *torch.autograd.grad(bias.square().sum(), list(position.parameters()))

    exact = passed(position.bias)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = passed(torch.compile(position.bias, fullgraph=True, backend="eager"))
    for one, other in zip(found, exact, strict=True):  # some dozen terms each, in another order
        largest = float(other.detach().abs().max())
        torch.testing.assert_close(one, other, rtol=0.0, atol=64 * torch.finfo(torch.float32).eps * largest)


def test_torch_func_goes_through_compiled_code():
    """It has no rule for operators that are not its own, so there each pair is asked for."""
    layer = layer_of(torch.float64)
    given = {name: weight.detach() for name, weight in layer.named_parameters()}
    x = torch.randn(3, 2, 12, 8, dtype=torch.float64)

    def loss(given, x):
        output = torch.func.functional_call(layer, given, (x,), {"positions": PATCHES})
        return output.square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
    found = torch.compile(each, fullgraph=True, backend="eager")(given, x)
    for row in range(3):
        exact = passed(layer, layer, x[row], PATCHES)[1:]
        for one, other in zip([found[name] for name in given if "position" in name], exact, strict=True):
            torch.testing.assert_close(one[row], other, rtol=1e-12, atol=1e-12)


def test_an_exported_program_has_operators_of_torch_alone():
    layer = layer_of(torch.float32).eval()
    program = export(layer, (torch.randn(1, 12, 8),), {"positions": PATCHES})
    called = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert called
    assert not [name for name in called if "headwise" in name]
