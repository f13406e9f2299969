"""Reactions: hand-made mappings, a planted head, and RXNMapper's head 5."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from headwise.core import HeadwiseError
from headwise.experiments.roles.reactions import REACTIONS, MappedReaction, map_reactions
from headwise.models import TextModel, open_text_model

ORIGINS = {reaction.smiles: reaction.origins for reaction in REACTIONS}


@pytest.fixture(scope="module")
def rxnmapper():
    return open_text_model("rxnmapper")


class Planted(nn.Module):
    """Two layers of two heads; head 1.0 looks from each product atom to its origin, the others evenly."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    def forward(self, input_ids, attention_mask, **others):
        smiles = "".join(self.tokenizer.convert_ids_to_tokens(input_ids[0])[1:-1])
        tokens = input_ids.shape[1]
        atoms = [i for i, number in enumerate(input_ids[0].tolist()) if self._is_atom(number)]
        products = len(ORIGINS[smiles])
        k = torch.eye(tokens).expand(1, 2, -1, -1)
        q = torch.zeros(1, 2, tokens, tokens)
        functional.scaled_dot_product_attention(q, k, k)
        for product, origin in zip(atoms[-products:], ORIGINS[smiles], strict=True):
            q[0, 0, product, atoms[origin]] = 200.0
        functional.scaled_dot_product_attention(q, k, k)

    def _is_atom(self, number):
        token = self.tokenizer.convert_ids_to_tokens(number)
        return token in {"C", "O", "N", "Cl", "Br", "[O-]"}


def test_the_planted_head_and_no_other(rxnmapper):
    planted = Planted(rxnmapper.tokenizer)
    found = map_reactions(TextModel("planted", planted, rxnmapper.tokenizer), draws=200)
    assert [head.name for head in found.heads] == ["0.0", "0.1", "1.0", "1.1"]
    assert [head.name for head in found.heads if head.p < 0.05] == ["1.0"]
    assert (found.best().name, found.best().share, found.best().error) == ("1.0", 1.0, 0.0)
    # even heads choose the first reactant atom: right for the first atom of the ester, and for N of the amide
    # and the last of ether and ketone, which is 4 of 22
    assert [head.share for head in found.heads if head.name != "1.0"] == pytest.approx(
        [4 / 22] * 3, abs=1e-12
    )


def test_baselines_by_hand(rxnmapper):
    found = map_reactions(rxnmapper, draws=1)
    assert (found.reactions, found.atoms) == (4, 22)
    # 6 product atoms of 7 reactant atoms, 6 of 7, 5 of 6, 5 of 5
    assert found.chance == pytest.approx((6 / 7 + 6 / 7 + 5 / 6 + 1) / 22, abs=1e-12)
    # 4 C of 4 in each, 2 O of 2 in the ester, and the only N or O of the others: each comes to 1
    assert found.same_element == pytest.approx((4 + 1 + 2 + 1 + 1) / 22, abs=1e-12)
    # origin less number: 0 0 0 1 1 1; 3 3 3 -3 -3 -3; 5 3 0 -2 -4; 4 1 1 -2 -4: five times 1
    assert found.same_order == pytest.approx(5 / 22, abs=1e-12)


def test_head_5_maps_atoms_at_all_depths(rxnmapper):
    found = map_reactions(rxnmapper, draws=200)
    for layer in range(12):
        heads = found.heads[8 * layer : 8 * layer + 8]
        assert max(heads, key=lambda head: head.share).head == 5
    fives = [head for head in found.heads if head.head == 5]
    right = [round(22 * head.share) for head in fives]
    assert [right[layer] for layer in (2, 4, 8, 9)] == [21, 21, 21, 20]
    assert right[10] >= 17  # the published head
    assert all(head.p < 0.01 for head in fives[1:])
    assert [head.name for head in found.heads if head.p < 0.05 and head.head != 5] == []
    assert found.mean < 0.3


def test_random_weights_map_nothing(rxnmapper):
    from transformers import AlbertModel

    claims = 0
    for seed in range(4):
        torch.manual_seed(seed)
        network = AlbertModel(rxnmapper.network.config).eval()
        found = map_reactions(TextModel("random", network, rxnmapper.tokenizer), draws=100, seed=seed)
        claims += any(head.p <= 0.05 for head in found.heads)
    assert claims <= 1  # two of four at the 5 % level have probability 0.014


@pytest.mark.parametrize(
    ("smiles", "origins"),
    [
        ("CO>>CO", (0,)),
        ("CO>>CO", (1, 0)),
        ("CO>>CO", (0, 2)),
        ("CO>>CO", (0, -1)),
        ("CO", (0, 1)),
        ("CO>>", ()),
    ],
)
def test_a_mapping_that_does_not_fit_is_refused(rxnmapper, smiles, origins):
    with pytest.raises(HeadwiseError, match="the origins of product atoms must be"):
        map_reactions(rxnmapper, [MappedReaction("wrong", smiles, origins)])


def test_charges_and_aromatic_atoms_are_of_their_element(rxnmapper):
    found = map_reactions(
        rxnmapper, [MappedReaction("salt", "c1ccoc1C[NH3+].[O-]C>>NCc1ccco1", (6, 5, 4, 0, 1, 2, 3))]
    )
    assert found.atoms == 7
