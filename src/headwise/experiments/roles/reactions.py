"""Reactions: which heads look from an atom of the product to the atom of the reactants that it was."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.look import AttentionCall, watch
from headwise.look.roles.alignment import LinkedText, alignment, chosen_keys
from headwise.look.roles.best_of_heads import DRAWS
from headwise.models import TextModel
from headwise.models.rxnmapper import ATOM

_ARROW = ">>"


@dataclass(frozen=True)
class MappedReaction:
    """A reaction in SMILES, ``reactants>>products``, and where each atom of the product came from.

    ``origins`` names for each product atom, in the order of writing, the reactant atom it was, counted from 0
    in the order of writing; hydrogens within another atom's brackets are none.

    >>> REACTIONS[0].smiles, REACTIONS[0].origins
    ('CC(=O)Cl.OCC>>CC(=O)OCC', (0, 1, 2, 4, 5, 6))
    """

    name: str
    smiles: str
    origins: tuple[int, ...]


# Mapped by hand. No atom has a twin that the reaction could take as well; some products are written in
# another order than their reactants, so that the order of writing alone does not give the answer.
REACTIONS = (
    MappedReaction("ester of an acid chloride and an alcohol", "CC(=O)Cl.OCC>>CC(=O)OCC", (0, 1, 2, 4, 5, 6)),
    MappedReaction("amide of an amine and an acid chloride", "NCC.CC(=O)Cl>>CC(=O)NCC", (3, 4, 5, 0, 1, 2)),
    MappedReaction("ether of an alkyl bromide and an alkoxide", "CCCBr.[O-]C>>COCCC", (5, 4, 2, 1, 0)),
    MappedReaction("reduction of a ketone", "CCC(=O)C>>CC(O)CC", (4, 2, 3, 1, 0)),
)


@dataclass(frozen=True)
class ReactionHead:
    """One head: its share of right atoms, with standard error and p. The layer counts calls, from 0."""

    layer: int
    head: int
    share: float
    error: float
    p: float

    @property
    def name(self) -> str:
        """``layer.head``, both from 0."""
        return f"{self.layer}.{self.head}"


@dataclass(frozen=True)
class ReactionMapping:
    """For every head the share of product atoms whose largest weight among reactant atoms is the right one.

    ``chance`` is what a random reactant atom would get, ``same_element`` a random one of the same element,
    and ``same_order`` the best fixed shift between the numbers of product and reactant atoms. ``mean`` is the
    share over all heads.
    """

    model: str
    reactions: int
    atoms: int
    chance: float
    same_element: float
    same_order: float
    mean: float
    heads: list[ReactionHead]

    def best(self) -> ReactionHead:
        """The head with the largest share, the first of equal ones."""
        return max(self.heads, key=lambda head: head.share)


@torch.no_grad()
def map_reactions(
    model: TextModel,
    reactions: Sequence[MappedReaction] = REACTIONS,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> ReactionMapping:
    """How well each head's largest weight maps product atoms to reactant atoms.

    Schwaller et al. 2021, Science Advances 7(15), eabe4166, "Extraction of organic chemistry grammar from
    unsupervised learning of chemical reactions". The null deals the right atoms anew among the product atoms
    of the same element in the same reaction, as a head that knows nothing but elements would look right
    otherwise; p is against the best of all heads. Standard errors leave out a reaction at a time.

    Raises HeadwiseError if a reaction's atoms do not fit its SMILES or the model's tokens.
    """
    atoms = [_Atoms(model, reaction) for reaction in reactions]
    read = [_read(model, own) for own in atoms]
    texts = [text for text, _ in read]
    found = alignment(texts, draws=draws, seed=seed)
    places = read[0][1]
    columns = (found.accuracy.tolist(), found.accuracy_error.tolist(), found.accuracy_p.tolist())
    rows = zip(places, *columns, strict=True)
    return ReactionMapping(
        model=model.name,
        reactions=len(reactions),
        atoms=found.rows,
        chance=sum(len(own.products) / len(own.reactants) for own in atoms) / found.rows,
        same_element=_same_element(atoms),
        same_order=_same_order(reactions),
        mean=float(found.accuracy.mean()),
        heads=[ReactionHead(layer, head, *figures) for (layer, head), *figures in rows],
    )


class _Atoms:
    """The places of a reaction's atoms among its tokens, checked against the hand-made mapping."""

    def __init__(self, model: TextModel, reaction: MappedReaction) -> None:
        self.encoded = model.encode(reaction.smiles)
        tokens = self.encoded.tokens
        arrow = tokens.index(_ARROW) if _ARROW in tokens else len(tokens)
        written = [
            reaction.smiles[start:stop] for start, stop in self.encoded.spans
        ]  # empty for special tokens
        atoms = [place for place, token in enumerate(written) if re.fullmatch(ATOM, token)]
        self.reactants = [place for place in atoms if place < arrow]
        self.products = [place for place in atoms if place > arrow]
        self.elements = {place: _element(written[place]) for place in atoms}
        fits = len(self.products) == len(reaction.origins) > 0
        fits = fits and all(0 <= origin < len(self.reactants) for origin in reaction.origins)
        if fits:
            self.origins = [self.reactants[origin] for origin in reaction.origins]
            pairs = zip(self.products, self.origins, strict=True)
            fits = all(self.elements[product] == self.elements[origin] for product, origin in pairs)
        if not fits:
            raise HeadwiseError(
                who="map_reactions",
                what="the origins of product atoms",
                expected=f"{len(self.products)} numbers of reactant atoms of the same element, below "
                f"{len(self.reactants)}",
                got=f"{reaction.origins} for {reaction.smiles!r}",
                why="An atom stays what it is in a reaction",
                do="Count atoms from 0 in the order of writing, without hydrogens inside brackets",
            )


def _element(atom: str) -> str:
    """The element of an atom in SMILES, aromatic ones too: ``[NH3+]`` is N, ``[13cH]`` is C."""
    found = re.match(r"\[?\d*([A-Z][a-z]?|[a-z]{1,2})", atom)
    return found[1].capitalize() if found else atom


def _read(model: TextModel, atoms: _Atoms) -> tuple[LinkedText, list[tuple[int, int]]]:
    """What every head chose for the product atoms, with the gold links; and the heads' layer and number."""
    products = torch.tensor(atoms.products)
    among = torch.zeros(len(atoms.encoded.tokens), dtype=torch.bool)
    among[atoms.reactants] = True
    chosen: list[Tensor] = []

    def on_call(call: AttentionCall) -> None:
        chosen.append(
            chosen_keys(call.map(), products.to(call.q.device), keys=among.to(call.q.device))[0].cpu()
        )

    with watch(model.network, on_call):
        model.network(**atoms.encoded.inputs)
    links = torch.stack([torch.arange(len(products)), torch.tensor(atoms.origins)], dim=1)
    names = sorted(set(atoms.elements.values()))
    group = torch.tensor([names.index(atoms.elements[place]) for place in atoms.products])
    heads = [(layer, head) for layer, rows in enumerate(chosen) for head in range(len(rows))]
    return LinkedText(torch.cat(chosen), sure=links, group=group), heads


def _same_element(atoms: Sequence[_Atoms]) -> float:
    """The share that a random reactant atom of the right element gets."""
    shares = [
        1 / sum(own.elements[other] == own.elements[product] for other in own.reactants)
        for own in atoms
        for product in own.products
    ]
    return sum(shares) / len(shares)


def _same_order(reactions: Sequence[MappedReaction]) -> float:
    """The share that the best fixed shift gets, the same for all reactions."""
    shifts = [origin - number for reaction in reactions for number, origin in enumerate(reaction.origins)]
    return max(shifts.count(shift) for shift in shifts) / len(shifts)
