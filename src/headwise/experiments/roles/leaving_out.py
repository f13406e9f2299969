"""Which roles were not asked, and how to ask them."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.experiments.roles.battery import RoleResult
from headwise.experiments.roles.probes import Sources

NEEDS = {
    "syntax": "needs trees: --treebank FILE.conllu, or --text FILE --trees PIPELINE of an installed spaCy",
    "coreference": "needs entities: --treebank with Entity= in its last column, as GUM's files have it",
    "labels": "needs labels of your own: --labels FILE.json",
}


def left_out(
    results: Sequence[RoleResult], sources: Sequence[Sources], roles: Sequence[str]
) -> dict[str, str]:
    """Families that no role was asked of, each with what it needs; nothing where roles were named.

    >>> sorted(left_out([], [], []))
    ['coreference', 'labels', 'syntax']
    """
    if roles:
        return {}
    asked = {result.family for result in results}
    short = any(source.sentences or source.labelled for source in sources)
    more = ". Those given have it in too few texts" if short else ""
    return {family: needs + more for family, needs in NEEDS.items() if family not in asked}
