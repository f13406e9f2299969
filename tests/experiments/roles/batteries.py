"""Batteries made by hand: nobody ran a model for them."""

from headwise.experiments.roles.battery import Confirmation, HeadScore, RoleBattery, RoleResult

EVEN = "even attention"
UP, DOWN = ", dependent to head", ", head to dependent"


def score(head, value, baseline=0.2, control=0.1, *, held=True, p=0.0004):
    """A head whose interval is 0.03 to either side."""
    return HeadScore(
        head,
        value,
        value - 0.03,
        value + 0.03,
        0.015,
        value,
        value - 0.1,
        value + 0.05,
        baseline,
        control,
        p,
        held,
    )


def role(name, family, *heads, verdict=None, by="always -1", data="dev.conllu", rows=1200, best=None):
    """Held by the heads that are given; without any, nobody's, or as the verdict says."""
    return RoleResult(
        role=name,
        family=family,
        asks="Where?",
        data=data,
        rows=rows,
        texts=100,
        units="100 texts",
        baseline_name=by,
        least=0.0,
        margin=0.1,
        best=best or (heads[0] if heads else score("0.1", 0.3, 0.25, held=False, p=0.9)),
        heads=list(heads),
        verdict=verdict or ("held" if heads else "none"),
    )


AMOD = score("0.2", 0.788, 0.746, held=False)
COMPOUND = score("0.2", 0.773, 0.769, held=False)
ROLES = [
    role("previous token", "position", score("0.0", 0.93, 0.05), score("1.2", 0.7, 0.05), by=EVEN),
    role("nearby", "position", score("1.1", 0.95, 0.4), by=EVEN),
    role("separators", "sinks", score("1.0", 0.8, 0.1), by=EVEN),
    role("obj" + UP, "syntax", score("0.1", 0.737, 0.351), by="always -2"),
    role("det" + UP, "syntax", *(score(f"0.{n}", 0.8 - n / 20, 0.597) for n in range(4)), by="always +1"),
    role("case" + UP, "syntax", score("1.2", 0.688, 0.39), by="always +2"),
    role("aux" + DOWN, "syntax", score("0.1", 0.69, 0.54)),
    role("amod" + UP, "syntax", verdict="position", best=AMOD, by="always +1"),
    role("compound" + UP, "syntax", verdict="position", best=COMPOUND, by="always +1"),
    role("obl" + UP, "syntax", best=score("0.2", 0.25, 0.2, held=False, p=0.62), by="always -3"),
    role("pronoun to antecedent", "coreference", score("1.3", 0.793, 0.19), rows=580),
    role("pronoun to antecedent, another word", "coreference", score("1.3", 0.679, 0.186), rows=458),
    role("mention to antecedent, another word", "coreference", rows=826),
    role("meaning", "meaning", score("0.3", 0.25, 0.02, 0.08), data="97 sense pairs", by=EVEN),
]  # fmt: skip


def battery(roles=ROLES, of_heads=None, **changed):
    """Two layers of four heads."""
    rows = of_heads or [
        ["previous token", "obj, dependent to head", "none", "meaning"],
        ["separators", "nearby", "case, dependent to head", "pronoun to antecedent"],
    ]
    count = sum(map(len, rows))
    there = {
        "model": "small",
        "untrained_seed": None,
        "data": ["dev.conllu", "97 sense pairs"],
        "roles": list(roles),
        "of_heads": rows,
        "share_with_role": sum(name != "none" for row in rows for name in row) / count,
        "left_out": {"labels": "Give your own labels with --labels."},
        "sentences": {"One head watches syntax": "yes for obj"},
        "confirmed": [],
        "coverage": "Seen: 2 of 2 attention layers.",
    }
    return RoleBattery(**{**there, **changed})


WHAT = "loss on the repeat, nats per token"
INDUCTION_REMOVED = Confirmation(
    "induction", [f"18.{head}" for head in range(7)], WHAT, 2.7, 12.64, [3.56, 2.59, 2.97], 7
)
