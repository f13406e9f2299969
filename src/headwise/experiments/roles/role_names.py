"""How a role is written where there is little room: its group, its short name, and its code."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters, digits

from headwise.experiments.roles.battery import RoleResult
from headwise.look.roles.coreference import MENTIONS_OTHER_WORD, PRONOUNS, PRONOUNS_OTHER_WORD
from headwise.look.roles.links import COPIES, INDUCTION, MEANING
from headwise.look.roles.relations import DOWN, UP

# Okabe and Ito 2008, a colour for each kind of role: told apart with any kind of colour blindness
FAMILIES = {
    "position": "#56B4E9",
    "sinks": "#BBBBBB",
    "tokens": "#F0E442",
    "syntax": "#009E73",
    "coreference": "#D55E00",
    "meaning": "#CC79A7",
    "induction": "#0072B2",
    "labels": "#E69F00",
}
DARK = ("induction",)  # white letters are read on it, black ones on the others
_UP, _DOWN = ">", "<"
_CODES = {
    "previous token": "prev",
    "next token": "next",
    "the token itself": "self",
    "nearby": "near",
    "first token": "first",
    "separators": "sep",
    "punctuation": "marks",
    "same token": "same",
    "same word": "word",
    "rarest token": "rare",
    "own segment": "segm",
    PRONOUNS: "pron",
    PRONOUNS_OTHER_WORD: "pron2",
    MENTIONS_OTHER_WORD: "ment2",
    MEANING: "mean",
    INDUCTION: "ind",
    COPIES: "copy",
}
DIRECTIONS = f"{_UP} = from dependent to head; {_DOWN} = from head to dependent"


def group_of(result: RoleResult) -> str:
    """The family, for syntax with the direction: what a role's short name needs beside it."""
    direction = result.role.partition(", ")[2]
    return f"{result.family}, {direction}" if direction in (UP, DOWN) else result.family


def short_name(result: RoleResult) -> str:
    """The role without what its group says."""
    name, _, rest = result.role.partition(", ")
    if rest in (UP, DOWN):
        return name
    return result.role.replace(" to antecedent", "") if result.family == "coreference" else result.role


def codes(roles: Sequence[str], width: int) -> dict[str, str]:
    """A code of at most ``width`` letters for each role, no two the same.

    >>> codes(["obj, dependent to head", "obj, head to dependent", "token at -2"], 4)
    {'obj, dependent to head': 'obj>', 'obj, head to dependent': 'obj<', 'token at -2': '-2'}
    >>> codes(["next token", "nearby"], 1)
    {'next token': 'A', 'nearby': 'B'}
    """
    found: dict[str, str] = {}
    for role in dict.fromkeys(roles):
        taken = set(found.values())
        code = _code(role, width)
        spare = [code[: width - 1] + mark for mark in digits[2:] + ascii_letters]
        names = [code, *spare] if width > 1 else list(ascii_letters[26:] + ascii_letters[:26] + digits)
        found[role] = next((name for name in names if name not in taken), "?")
    return found


def _code(role: str, width: int) -> str:
    name, _, rest = role.partition(", ")
    if rest in (UP, DOWN):
        return name[: max(1, width - 1)] + (_UP if rest == UP else _DOWN)
    if role.startswith("token at "):
        return role.removeprefix("token at ")[:width]
    return _CODES.get(role, role.replace(" ", "_"))[:width]
