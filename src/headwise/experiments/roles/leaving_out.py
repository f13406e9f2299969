"""Which roles were not asked, why, and how to ask them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwise.core import HeadwiseError
from headwise.experiments.roles.battery import RoleResult
from headwise.experiments.roles.probes import SENTENCE_WORDS, Sources
from headwise.experiments.roles.role_names import FAMILIES
from headwise.look.roles.plan import FEWEST_TEXTS

SEGMENT = "own segment"
NEEDS = {
    "syntax": "needs trees: --treebank FILE.conllu, or --text FILE --trees PIPELINE of an installed spaCy",
    "coreference": "needs entities: --treebank with Entity= in its last column, as GUM's files have it",
    SEGMENT: "needs several segments in a text: --labels with segments, or --treebank with speakers",
    "labels": "needs labels of your own: --labels FILE.json",
}


def left_out(
    results: Sequence[RoleResult],
    sources: Sequence[Sources],
    roles: Sequence[str],
    *,
    known: Mapping[str, int],
    causal: bool,
) -> dict[str, str]:
    """Families that no role was asked of, each with the reason; nothing where roles were named.

    ``known`` says by name how many texts have rows for a role, ``causal`` that no token sees later ones.

    >>> left_out([], [], [], known={"sinks": 12}, causal=False)["sinks"]
    'in 12 texts; 20 are needed'
    >>> sorted(left_out([], [], [], known={}, causal=False))
    ['coreference', 'labels', 'own segment', 'syntax']
    """
    if roles:
        return {}
    asked = {name for result in results for name in (result.family, result.role)}
    why = {name: _why(name, sources, known, causal) for name in (*FAMILIES, SEGMENT) if name not in asked}
    return {name: reason for name, reason in why.items() if reason}


def check_known(
    roles: Sequence[str], sources: Sequence[Sources], *, known: Mapping[str, int], causal: bool
) -> None:
    """Refuse roles that no text has rows for, or too few texts: nothing could be said of them.

    Raises HeadwiseError, with the reason, if there is such a role.

    >>> check_known(["sinks"], [], known={"sinks": 20}, causal=False)
    """
    for role in roles:
        count = known.get(role, 0)
        if not count:
            raise _unknown(role, known, _why(role, sources, known, causal))
        if count < FEWEST_TEXTS:
            later = _later(role, sources, causal)
            raise HeadwiseError(
                who="roles",
                what=f"the texts with rows for {role!r}",
                expected=f"at least {FEWEST_TEXTS}",
                got=str(count),
                why=later or "Heads are chosen on one half of them and reported on the other",
                do="Give more text, or leave the role out",
            )


def _unknown(role: str, known: Mapping[str, int], why: str) -> HeadwiseError:
    names = [name for name, texts in known.items() if ", " not in name and texts >= FEWEST_TEXTS]
    hint = f"{role}: {why}" if why else "roles of syntax and coreference need a treebank"
    return HeadwiseError(
        who="roles",
        what="a role",
        expected=f"one of {', '.join(names)}",
        got=repr(role),
        why="These are the roles, and families of roles, that the texts have rows for",
        do=f"Name one of them; {hint}",
    )


def _why(name: str, sources: Sequence[Sources], known: Mapping[str, int], causal: bool) -> str:
    """Why nothing was asked by this name; empty if no more than that is known."""
    parts = [NEEDS.get(name, ""), _given(name, sources, causal)]
    if count := known.get(name, 0):
        parts = [f"in {count} text{'s' if count != 1 else ''}; {FEWEST_TEXTS} are needed"]
    return ". ".join(filter(None, [*parts, _later(name, sources, causal)]))


def _given(name: str, sources: Sequence[Sources], causal: bool) -> str:
    """What is wrong with what was given for it, if anything was."""
    sentences = [text for source in sources for text in source.sentences]
    labelled = [text for source in sources for text in source.labelled]
    low, high = SENTENCE_WORDS
    if name == "syntax" and any(text.arcs for text in sentences):
        return f"No sentence of {low} to {high} words has a relation that can be asked of this model"
    if name == "coreference" and any(text.mentions for text in sentences):
        return "None of the mentions given takes up an earlier one among three"
    if name == SEGMENT and causal:
        return "It cannot be asked of this model, whose tokens see none that come later"
    if name == SEGMENT and any(text.segments for text in (*sentences, *labelled)):
        return "No text of those given has two segments"
    if name == "labels" and labelled and not _later(name, sources, causal):
        return "The texts given have no link to another word"
    return ""


def _later(name: str, sources: Sequence[Sources], causal: bool) -> str:
    """That links to later words cannot be asked of a causal model, if there are such."""
    links = [link for source in sources for text in source.labelled for link in text.links]
    named = [link for link in links if name in ("labels", link.label)]
    lost = sum(min(link.keys) > link.query for link in named)
    if not causal or not lost:
        return ""
    return f"{lost} of {len(named)} links name only later words, which this model's tokens do not see"
