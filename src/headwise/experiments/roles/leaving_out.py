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
    texts = [text for source in sources for text in source.sentences]
    given = {
        "syntax": any(text.arcs for text in texts),
        "coreference": any(text.mentions for text in texts),
        "labels": any(source.labelled for source in sources),
    }
    return {
        family: needs + (". Those given are in too few texts" if given[family] else "")
        for family, needs in NEEDS.items()
        if family not in asked
    }
