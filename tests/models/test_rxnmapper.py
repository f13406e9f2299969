"""RXNMapper is the trained model: its head 5 finds where the atoms of a product came from."""

import pytest
import torch

from headwise.models import open_text_model

# acetyl chloride and ethanol give ethyl acetate; by the chemistry of esters, the product's atoms by token
REACTION = "CC(=O)Cl.OCC>>CC(=O)OCC"
CAME_FROM = {13: 1, 14: 2, 17: 5, 19: 9, 20: 10, 21: 11}


@pytest.fixture(scope="module")
def rxnmapper():
    return open_text_model("rxnmapper", attention="eager")


def test_one_token_for_each_atom_bond_and_bracket(rxnmapper):
    encoded = rxnmapper.encode("[NH4+].Clc1ccc(Br)cc1>>C%12=C\\C#N")
    expected = "[CLS] [NH4+] . Cl c 1 c c c ( Br ) c c 1 >> C %12 = C \\ C # N [SEP]"
    assert " ".join(encoded.tokens) == expected
    assert encoded.spans[:3] == [(0, 0), (0, 6), (6, 7)]


def test_what_is_no_smiles_is_not_dropped_in_silence(rxnmapper):
    assert rxnmapper.encode("C~the").tokens == ["[CLS]", "C", "~", "[UNK]", "[SEP]"]


def test_head_5_maps_atoms_and_the_other_heads_do_not(rxnmapper):
    reading = rxnmapper.read(REACTION)
    assert reading.weights.shape == (12, 8, 23, 23)
    atoms = [place for place, token in enumerate(reading.tokens[:12]) if token.isalpha()]
    product, origin = torch.tensor(list(CAME_FROM)), torch.tensor(list(CAME_FROM.values()))
    chosen = torch.tensor(atoms)[reading.weights[:, :, product][..., atoms].argmax(-1)]
    right = (chosen == origin).sum(-1)  # layer head
    assert right[2:5, 5].tolist() == [6, 6, 6]
    assert right.float().mean() < 2


def test_one_layer_serves_all_twelve(rxnmapper):
    assert sum(weight.numel() for weight in rxnmapper.network.parameters()) < 800_000
