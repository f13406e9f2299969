"""Rotary of several axes against its formulas and transformers, on grids that are not square.

Faults elsewhere, with their numbers in the survey, and the test that would have caught each:

    L7      an offset that a cached table forgets                 test_an_offset_shifts_and_is_not_kept
    21, 20  the flag of the layout does not arrive                test_axial_against_the_formula, test_layouts
    22, 23  rows and columns swapped where the grid is not square test_rows_and_columns
    L12     positions of each row refused                         test_positions_of_each_row
"""

import pytest
import torch
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
    Qwen2_5_VLVisionRotaryEmbedding,
    apply_rotary_pos_emb,
)

from headwise.core import HeadwiseError
from headwise.layers import (
    AxialRotary,
    MixedRotary,
    MultiHeadAttention,
    MultimodalRotary,
    Rotary,
    grid_positions,
)
from tests.layers.encodings import words
from tests.layers.oracles import rotary as oracle

EXACT = {"rtol": 0.0, "atol": 1e-12}
GRID = (4, 7)
LAYOUTS = {
    "halves": lambda dims, axes: oracle.halves(dims),
    "neighbours": lambda dims, axes: oracle.neighbours(dims),
    "axis halves": oracle.halves_of_axes,
}
every_layout = pytest.mark.parametrize("pairs", LAYOUTS)


def by_formula(x, positions, angles, layout):
    rows = x.flatten(0, -2).tolist()
    turned = [
        oracle.turned(row, angles(at), layout) for row, at in zip(rows, positions.tolist(), strict=True)
    ]
    return torch.tensor(turned, dtype=torch.float64).reshape(x.shape)


@every_layout
@pytest.mark.parametrize(("sizes", "dims"), [(GRID, 8), (GRID, 16), ((2, 3, 4), 12), ((5,), 6)])
def test_axial_against_the_formula(pairs, sizes, dims):
    positions, axes = grid_positions(*sizes), len(sizes)
    x = words(1, 1, len(positions), dims)
    turned = AxialRotary(100.0, axes=axes, pairs=pairs).turn(x, positions)
    layout = LAYOUTS[pairs](dims, axes)
    expected = by_formula(x, positions, lambda at: oracle.axial_angles(dims, at, 100.0), layout)
    torch.testing.assert_close(turned, expected, **EXACT)


@every_layout
def test_a_rest_of_the_head_passes_as_it_is(pairs):
    x, positions = words(1, 1, 28, 10), grid_positions(*GRID)
    turned = AxialRotary(pairs=pairs, dims=8).turn(x, positions)
    assert torch.equal(turned[..., 8:], x[..., 8:])
    torch.testing.assert_close(turned[..., :8], AxialRotary(pairs=pairs).turn(x[..., :8], positions), **EXACT)


def test_axial_against_qwen2_5_vl():
    config = Qwen2_5_VLVisionRotaryEmbedding.__init__.__annotations__["config"](hidden_size=64, num_heads=4)
    theirs, positions, x = (
        Qwen2_5_VLVisionRotaryEmbedding(config),
        grid_positions(*GRID),
        torch.randn(1, 2, 28, 16),
    )
    cosine, sine = theirs(x, positions)
    expected = apply_rotary_pos_emb(x, x, cosine[None], sine[None])[0]
    ours = Rotary.from_config(config)
    assert isinstance(ours, AxialRotary)
    # float32 angles of at most 6 on their side
    torch.testing.assert_close(
        ours.turn(x, positions), expected, rtol=0.0, atol=6 * 4 * 2**-24 * float(x.abs().max())
    )


def test_rows_and_columns():
    """One step down moves the first share of the pairs and no other, one step to the right the other."""
    x = torch.ones(1, 1, 3, 8).double()
    here, down, right = AxialRotary().turn(x, torch.tensor([[2, 5], [3, 5], [2, 6]]))[0, 0]
    assert (here != down).nonzero().flatten().tolist() == [0, 1, 4, 5]
    assert (here != right).nonzero().flatten().tolist() == [2, 3, 6, 7]
    assert grid_positions(*GRID).amax(0).tolist() == [3, 6]
    assert grid_positions(*GRID)[7].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("heads", "kv_heads", "pairs"), [(4, 4, "halves"), (4, 2, "neighbours"), (4, 1, "halves")]
)
def test_mixed_against_the_formula(heads, kv_heads, pairs):
    mixed = MixedRotary(kv_heads, 8, pairs=pairs).double()
    positions = grid_positions(*GRID)
    q, k = words(1, heads, 28, 8), words(1, kv_heads, 28, 8)
    for x, result in zip((q, k), mixed.rotate(q, k, positions, positions), strict=True):
        for head in range(x.shape[1]):
            vectors = mixed.frequencies[head * kv_heads // x.shape[1]].tolist()
            expected = by_formula(
                x[:, [head]],
                positions,
                lambda at, v=vectors: oracle.mixed_angles(at, v),
                LAYOUTS[pairs](8, 2),
            )
            torch.testing.assert_close(result[:, [head]], expected, **EXACT)


def test_mixed_starts_at_right_angles_and_learns():
    torch.manual_seed(3)
    mixed = MixedRotary(2, 12, base=10.0)
    lengths = torch.tensor([10.0 ** (-2 * i / 6) for i in range(3)]).repeat(2, 2)
    torch.testing.assert_close(mixed.frequencies.norm(dim=-1), lengths)
    first, second = mixed.frequencies[:, :3], mixed.frequencies[:, 3:]
    torch.testing.assert_close((first * second).sum(-1), torch.zeros(2, 3), rtol=0.0, atol=1e-6)
    assert not torch.allclose(mixed.frequencies[0], mixed.frequencies[1])
    layer = MultiHeadAttention(24, 2, position=mixed)
    layer(torch.randn(1, 28, 24), positions=grid_positions(*GRID)).square().sum().backward()
    assert mixed.frequencies.grad.abs().min() > 0


ENCODINGS = {
    "axial": lambda: AxialRotary(),
    "mixed": lambda: MixedRotary(2, 12),
    "multimodal, two axes": lambda: MultimodalRotary((3, 3), arrangement="interleaved"),
}
every_encoding = pytest.mark.parametrize("name", ENCODINGS)


def layer_with(name):
    return MultiHeadAttention(24, 2, position=ENCODINGS[name]()).double().eval()


@every_encoding
def test_an_offset_shifts_and_is_not_kept(name):
    """Any offset of rows and columns leaves the output; so does the call after it."""
    layer, x, at = layer_with(name), words(2, 28, 24), grid_positions(*GRID)
    plain = layer(x, positions=at)
    torch.testing.assert_close(layer(x, positions=at + torch.tensor([3, -90])), plain, rtol=0.0, atol=1e-11)
    assert torch.equal(layer(x, positions=at), plain)


@every_encoding
def test_a_grid_on_its_side_is_another_grid(name):
    layer, x = layer_with(name), words(1, 28, 24)
    upright, lying = layer(x, positions=grid_positions(4, 7)), layer(x, positions=grid_positions(7, 4))
    assert (upright - lying).abs().max() > 1e-3


@every_encoding
def test_positions_of_each_row(name):
    layer, x = layer_with(name), words(2, 28, 24)
    at = torch.stack([grid_positions(4, 7), grid_positions(7, 4)])
    together = layer(x, positions=at)
    for row in range(2):
        for alone in (at[row], at[[row]]):
            torch.testing.assert_close(layer(x[[row]], positions=alone), together[[row]], **EXACT)
    assert torch.equal(layer(x, positions=at.int()), together)


@every_encoding
def test_cross_attention_between_grids(name):
    layer, x, memory = layer_with(name), words(1, 28, 24), words(1, 6, 24)
    output = layer(x, memory, positions=grid_positions(4, 7), memory_positions=grid_positions(2, 3))
    moved = layer(x, memory, positions=grid_positions(4, 7) + 5, memory_positions=grid_positions(2, 3) + 5)
    torch.testing.assert_close(moved, output, rtol=0.0, atol=1e-11)


@every_encoding
def test_positions_on_one_axis_are_refused(name):
    with pytest.raises(HeadwiseError, match=r"positions must be integers of shape \[5, 2\] or \[3, 5, 2\]"):
        layer_with(name)(words(3, 5, 24), positions=torch.arange(5))


def test_without_positions_tokens_are_text_or_refused():
    layer, x = layer_with("multimodal, two axes"), words(1, 5, 24)
    as_text = MultiHeadAttention(24, 2, position=Rotary()).double()
    as_text.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x), as_text(x), **EXACT)
    with pytest.raises(HeadwiseError, match="AxialRotary: positions must be integers of shape"):
        layer_with("axial")(x)


@every_encoding
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_neighbours_stay_apart_far_away(name, dtype):
    encoding, x = ENCODINGS[name](), torch.ones(1, 2, 3, 12, dtype=dtype)
    for far in (256, 2048, 100_003):
        here, down, right = encoding.turn(x, torch.tensor([[far, far], [far + 1, far], [far, far + 1]]))[0, 0]
        assert (here - down).abs().max() > 0.05
        assert (here - right).abs().max() > 0.05
        assert here.dtype == dtype


@every_encoding
def test_compiled_whole_equals_eager(name):
    layer, x, at = layer_with(name), words(1, 28, 24), grid_positions(*GRID)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, positions=at), layer(x, positions=at), **EXACT)
    torch.compiler.reset()
