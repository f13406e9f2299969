"""The published forms of sinusoidal, and learned tables at other sizes.

Known faults of other libraries, and the test here that would have caught each:

32  exponent doubled                         test_the_published_numbers
33  odd model_dim raises                     test_each_form_is_its_formula
L12 positions of each row are refused        test_claims.test_positions_of_rows_are_each_row_alone
23  resizing assumes a square                test_a_grid_that_is_not_square
"""

import warnings

import pytest
import torch

from headwise.core import Padding
from headwise.layers import Learned, Sinusoidal
from tests.layers.oracles import distances as expected

FORMS = [(layout, slowest) for layout in ("neighbours", "halves") for slowest in ("before base", "at base")]


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize(("layout", "slowest"), FORMS)
def test_each_form_is_its_formula(layout, slowest, dim):
    """An angle of 99 radians in float64 is right to 1e-14, and a few roundings of the frequency."""
    encoding = Sinusoidal(500.0, layout=layout, slowest=slowest)
    made = encoding.table(torch.tensor([0, 1, 99]), dim, torch.float64)
    exact = [expected.sinusoidal(p, dim, 500.0, layout, slowest) for p in (0, 1, 99)]
    torch.testing.assert_close(made, torch.tensor(exact, dtype=torch.float64), rtol=0.0, atol=1e-12)


def test_the_published_numbers():
    table = Sinusoidal().table(torch.arange(2), 4)
    numbers = torch.tensor([[0.0, 1.0, 0.0, 1.0], [0.84147, 0.54030, 0.0099998, 0.99995]])
    torch.testing.assert_close(table, numbers, rtol=0.0, atol=5e-6)


def test_marian_halves():
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    for dim in (8, 9):
        theirs = MarianSinusoidalPositionalEmbedding(30, dim).create_weight()
        ours = Sinusoidal(layout="halves").table(torch.arange(30), dim)
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=2**-22)


def test_xglm_halves_at_base():
    """Their float32 angles below 32 radians are off by 32 * 2^-23 or so."""
    from transformers.models.xglm.modeling_xglm import XGLMSinusoidalPositionalEmbedding

    for dim in (8, 9):
        theirs = XGLMSinusoidalPositionalEmbedding.get_embedding(32, dim)
        ours = Sinusoidal(layout="halves", slowest="at base").table(torch.arange(32), dim)
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=32 * 2**-22)


def test_x_transformers_halves():
    with warnings.catch_warnings():  # it still uses torch.jit
        warnings.simplefilter("ignore")
        from x_transformers.x_transformers import ScaledSinusoidalEmbedding

    theirs = ScaledSinusoidalEmbedding(8)
    ours = Sinusoidal(layout="halves").table(torch.arange(32), 8) * theirs.scale
    torch.testing.assert_close(ours, theirs(torch.zeros(1, 32, 8)), rtol=0.0, atol=32 * 2**-22)


@pytest.mark.parametrize("length", [1, 2, 5, 9, 30])
def test_a_line_of_another_length(length):
    learned = Learned(5, 3, std=1.0).double()
    resized = learned.resized(length)
    exact = torch.tensor(expected.between(learned.table.tolist(), length), dtype=torch.float64)
    torch.testing.assert_close(resized.table.detach(), exact, rtol=0.0, atol=1e-13)
    assert len(learned.table) == 5
    assert resized.table.requires_grad
    assert torch.equal(resized.table[0], learned.table[0])


@pytest.mark.parametrize("new", [(3, 5), (6, 10), (2, 2), (7, 3)])
def test_a_grid_that_is_not_square(new):
    learned = Learned(2 + 3 * 5, 2, std=1.0).double()
    resized = learned.resized_grid((3, 5), new, first=2)
    assert torch.equal(resized.table[:2], learned.table[:2])
    for d in range(2):
        exact = torch.tensor(
            expected.bicubic(learned.table[2:, d].tolist(), (3, 5), new), dtype=torch.float64
        )
        torch.testing.assert_close(resized.table[2:, d].detach(), exact, rtol=0.0, atol=1e-12)


def test_antialiasing_averages_on_a_coarser_grid():
    """A chequerboard of 0 and 1, every third square: a chequerboard again without, about grey with."""
    learned = Learned(9 * 9, 1)
    learned.table.data = (torch.arange(9)[:, None] + torch.arange(9)).remainder(2).float().reshape(81, 1)
    assert learned.resized_grid((9, 9), (3, 3)).table.flatten().tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0]
    smooth = learned.resized_grid((9, 9), (3, 3), antialias=True).table
    assert ((smooth - 0.5).abs() < 0.1).all()


def test_vit_resizes_alike():
    from transformers import ViTConfig
    from transformers.models.vit.modeling_vit import ViTEmbeddings

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    theirs = ViTEmbeddings(ViTConfig(image_size=8, patch_size=2, **sizes))
    torch.nn.init.normal_(theirs.position_embeddings)
    ours = Learned(17, 8)
    ours.table.data = theirs.position_embeddings.data[0].clone()
    picture = theirs.interpolate_pos_encoding(torch.zeros(1, 1 + 6 * 3, 8), 12, 6)[0]
    torch.testing.assert_close(ours.resized_grid((4, 4), (6, 3), first=1).table, picture)


def test_offsets_of_opt_and_roberta_are_positions():
    """Both read row 2 first, whatever padding stands before."""
    from transformers.models.opt.modeling_opt import OPTLearnedPositionalEmbedding
    from transformers.models.roberta.modeling_roberta import RobertaEmbeddings

    keep = torch.tensor([[False, True, True, True], [True, True, True, True]])
    at = Padding(keep).positions() + 2
    opt, ours = OPTLearnedPositionalEmbedding(10, 4), Learned(12, 4)
    ours.table.data = opt.weight.data
    assert torch.equal(ours.embed(torch.zeros(2, 4, 4), at)[keep], opt(keep.long())[keep])
    ids = torch.where(keep, 7, 1)  # 1 is the padding token
    roberta = RobertaEmbeddings.create_position_ids_from_input_ids(ids, padding_idx=1)
    assert torch.equal(at[keep], roberta[keep])
