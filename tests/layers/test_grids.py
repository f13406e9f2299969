"""A layer on grids that are not square, by plain loops: rows are rows and columns are columns."""

import pytest
import torch
from torch import nn

from headwise.core import HeadwiseError
from headwise.layers import (
    AxialRotary,
    BEiTTable,
    Chain,
    LogCPB,
    MixedRotary,
    MultiHeadAttention,
    MultimodalRotary,
    SwinTable,
    grid_positions,
    multimodal_positions,
)
from tests import oracle
from tests.layers.encodings import words
from tests.layers.oracles import distances, rotary

# Float64 on both sides, sums of at most 16 terms of size about 1, four products deep.
EXACT = {"rtol": 0.0, "atol": 1e-12}
MODEL_DIM, HEADS, KV_HEADS, HEAD_DIM = 16, 2, 1, 8
ROWS, COLUMNS = 2, 5  # a window of both serves the grid and the grid on its side
LONGEST = (5, 5)

# name: the encoding
FORMS = {
    "axial, halves": lambda: AxialRotary(100.0),
    "axial, neighbours": lambda: AxialRotary(100.0, pairs="neighbours"),
    "axial, axis halves": lambda: AxialRotary(100.0, pairs="axis halves"),
    "mixed": lambda: MixedRotary(KV_HEADS, HEAD_DIM),
    "multimodal, runs": lambda: MultimodalRotary((2, 1, 1)),
    "multimodal, interleaved": lambda: MultimodalRotary((2, 1, 1), arrangement="interleaved"),
    "swin": lambda: SwinTable(HEADS, LONGEST, std=1.0),
    "beit": lambda: BEiTTable(HEADS, LONGEST, std=1.0),
    "log-cpb": lambda: LogCPB(HEADS, (ROWS, COLUMNS), width=6),
    "axial and swin": lambda: Chain(AxialRotary(100.0), SwinTable(HEADS, LONGEST, std=1.0)),
}
forms = pytest.mark.parametrize("name", FORMS)
without_positions = pytest.mark.parametrize("name", [name for name in FORMS if "multimodal" not in name])
LAYOUTS = {
    "axial, neighbours": rotary.neighbours(HEAD_DIM),
    "axial, axis halves": rotary.halves_of_axes(HEAD_DIM, 2),
}
AXES_OF_PAIRS = {"multimodal, runs": [0, 0, 1, 2], "multimodal, interleaved": [0, 1, 2, 0]}


def positions_on(name, rows, columns):
    """A grid as each encoding wants it: with a class token in front, or with words around it."""
    if "multimodal" in name:
        return multimodal_positions(1, (1, rows, columns), 1)
    grid = grid_positions(rows, columns)
    return torch.cat((torch.tensor([[-1, -1]]), grid)) if name == "beit" else grid


def layer_of(name):
    layer = MultiHeadAttention(MODEL_DIM, HEADS, kv_heads=KV_HEADS, position=FORMS[name]())
    for projection in (layer.query, layer.key, layer.value, layer.output):
        nn.init.normal_(projection.bias, std=0.5)
    return layer.double().eval()


def turned(name, layer, row, at):
    """A query or a key of one token."""
    if name == "mixed":
        angles = rotary.mixed_angles(at, layer.position.frequencies[0].tolist())
    elif name in AXES_OF_PAIRS:
        angles = rotary.multimodal_angles(HEAD_DIM, at, AXES_OF_PAIRS[name])
    elif name.startswith("axial"):
        angles = rotary.axial_angles(HEAD_DIM, at, 100.0)
    else:
        return row
    return rotary.turned(row, angles, LAYOUTS.get(name, rotary.halves(HEAD_DIM)))


def added(name, layer, head, m, n):
    """What the scores of head get for a query at m and a key at n."""
    if name == "log-cpb":
        net = layer.position
        numbers = (net.hidden.weight.tolist(), net.hidden.bias.tolist(), net.out.weight.tolist())
        return distances.log_cpb(m, n, (ROWS, COLUMNS), *numbers)[head]
    if name == "beit":
        return float(layer.position.table[distances.beit_row(m, n, LONGEST), head])
    if name in ("swin", "axial and swin"):
        table = layer.position.table if name == "swin" else list(layer.position)[1].table
        return float(table[distances.swin_row(m, n, LONGEST), head])
    return 0.0


def by_loops(name, layer, x, memory, at_queries, at_keys):
    """One row of the batch; everything is a list."""
    q, k, v = (
        oracle.projected(source, projection.weight.tolist(), projection.bias.tolist())
        for source, projection in zip((x, memory, memory), (layer.query, layer.key, layer.value), strict=True)
    )
    k = [turned(name, layer, row, at) for row, at in zip(k, at_keys, strict=True)]  # one head serves all
    heads = []
    for head in range(HEADS):
        asks = oracle.columns(q, head * HEAD_DIM, (head + 1) * HEAD_DIM)
        asks = [turned(name, layer, row, at) for row, at in zip(asks, at_queries, strict=True)]
        bias = [[added(name, layer, head, m, n) for n in at_keys] for m in at_queries]
        heads.append(oracle.attention(asks, k, v, bias=bias))
    mixed = oracle.side_by_side(heads)
    output = oracle.projected(mixed, layer.output.weight.tolist(), layer.output.bias.tolist())
    return torch.tensor(output, dtype=torch.float64)


@forms
@torch.no_grad()
def test_a_layer_is_its_formula_on_each_grid_of_a_batch(name):
    """One grid for all rows of the batch, and a grid and the same on its side in one batch."""
    layer = layer_of(name)
    grid, side = positions_on(name, ROWS, COLUMNS), positions_on(name, COLUMNS, ROWS)
    x = words(2, len(grid), MODEL_DIM)
    for at in (grid, torch.stack((grid, side))):
        output = layer(x, positions=at)
        for row, of_row in enumerate(at.expand(2, *at.shape[-2:])):
            tokens, places = x[row].tolist(), of_row.tolist()
            wanted = by_loops(name, layer, tokens, tokens, places, places)
            torch.testing.assert_close(output[row], wanted, **EXACT)
    assert (layer(x, positions=side) - layer(x, positions=grid)).abs().max() > 1e-3, "H and W differ"


@forms
@torch.no_grad()
def test_between_two_grids(name):
    """Queries on one grid, keys on another of another size."""
    layer = layer_of(name)
    at_queries, at_keys = positions_on(name, 3, 1), positions_on(name, ROWS, COLUMNS)
    x, memory = words(1, len(at_queries), MODEL_DIM), words(1, len(at_keys), MODEL_DIM)
    wanted = by_loops(name, layer, x[0].tolist(), memory[0].tolist(), at_queries.tolist(), at_keys.tolist())
    output = layer(x, memory, positions=at_queries, memory_positions=at_keys)
    torch.testing.assert_close(output[0], wanted, **EXACT)


@without_positions
def test_without_positions_the_message_says_what_to_pass(name):
    with pytest.raises(HeadwiseError) as caught:
        layer_of(name)(words(1, 10, MODEL_DIM))
    message = str(caught.value)
    assert "positions must be integers of shape [10, 2] or [batch, 10, 2], got None" in message
    assert "Pass positions=grid_positions(rows, columns)" in message


@forms
def test_positions_of_one_axis_are_refused(name):
    with pytest.raises(HeadwiseError, match=r"positions must be integers of shape \[10, (2|3)\] or"):
        layer_of(name)(words(1, 10, MODEL_DIM), positions=torch.arange(10))
