"""The command that asks what each head does."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from headwise.cli.commands import add_command

if TYPE_CHECKING:
    from headwise.cli.commands import Commands
    from headwise.experiments import Result


def add_roles(commands: Commands) -> None:
    """Add roles."""
    command = add_command(
        commands,
        "roles",
        _roles,
        "which head looks where: position, syntax, coreference, meaning and more, with baselines",
        "headwise roles --model smollm2 --role induction position --confirm\n"
        "  headwise roles --treebank en_ewt-ud-dev.conllu --plot roles.png",
    )
    command.add_argument(
        "--model",
        metavar="NAME",
        help="a short name such as smollm2, or a local Hugging Face folder (default: all-MiniLM-L6-v2)",
    )
    command.add_argument(
        "--treebank",
        nargs="+",
        default=[],
        metavar="FILE",
        help="CoNLL-U files: for syntax, and for coreference if they mark mentions as GUM does",
    )
    command.add_argument(
        "--text",
        metavar="TEXT-or-FILE",
        help="a plain text, for the roles that need no trees (default: the package's own sentences)",
    )
    command.add_argument(
        "--trees", metavar="PIPELINE", help="an installed spaCy pipeline that gives the text its trees"
    )
    command.add_argument(
        "--labels", metavar="FILE", help="your own labels, as JSON: which word looks at which"
    )
    command.add_argument(
        "--role",
        nargs="+",
        default=[],
        metavar="NAME",
        help='only these: a kind such as syntax, or a role such as obj or "previous token"',
    )
    command.add_argument(
        "--confirm",
        action="store_true",
        help="remove the heads of each role and see what becomes of what it is about",
    )
    command.add_argument(
        "--untrained",
        type=int,
        metavar="SEED",
        help="ask the same of a copy with random weights, drawn with that seed: nothing should be found",
    )
    command.add_argument(
        "--seed", type=int, default=0, help="of random tokens and random heads (%(default)s)"
    )


def _roles(options: argparse.Namespace) -> Result:
    from rich.console import Console

    from headwise.experiments.roles.given_files import sources_from
    from headwise.experiments.roles.running import run_roles
    from headwise.models import DEFAULT, open_text_model

    with Console(stderr=True).status("Reading the texts"):
        sources = sources_from(options.treebank, options.text, options.labels, options.trees)
    with Console(stderr=True).status(f"Opening {options.model or DEFAULT}"):
        model = open_text_model(options.model)
    return run_roles(
        model,
        sources,
        roles=options.role,
        confirm=options.confirm,
        untrained=options.untrained,
        seed=options.seed,
    )
