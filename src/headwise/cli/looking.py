"""The commands that look inside a model: all heads, one window, and the model without some heads."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from headwise.cli.commands import Parser, add_command

if TYPE_CHECKING:
    from headwise.cli.commands import Commands
    from headwise.experiments import Result
    from headwise.models import Model

STATISTICS = ("entropy", "confidence", "distance", "spread", "self", "previous", "next", "first", "special")
_TEXT = "a text in quotes, or a text file; token numbers such as 5,17,3 for a plain PyTorch model"


def add_looking(commands: Commands) -> None:
    """Add inspect, zoom and ablate."""
    command = add_command(
        commands,
        "inspect",
        _inspect,
        "what every attention head of a model does with a text, exactly and at any length",
        'headwise inspect "The cat sat on the mat." --plot atlas.png\n'
        "  headwise inspect chapter.txt --model smollm2 --statistic previous --save recording",
    )
    command.add_argument("text", metavar="TEXT-or-FILE", help=_TEXT)
    _add_model(command)
    command.add_argument(
        "--rows",
        type=_rows,
        metavar="N|all",
        help="query rows to read of each head, drawn at random (default: all up to 1,024 tokens, else 512)",
    )
    command.add_argument(
        "--statistic",
        choices=STATISTICS,
        default="entropy",
        metavar="NAME",
        help="the one in the atlas: %(choices)s (%(default)s)",
    )
    command.add_argument("--save", metavar="DIR", help="keep queries and keys there, for headwise zoom")


def _add_model(command: Parser) -> None:
    command.add_argument(
        "--model",
        metavar="NAME",
        help="a short name such as smollm2, a local Hugging Face folder, or module:callable "
        "(default: all-MiniLM-L6-v2)",
    )


def _rows(text: str) -> int | str:
    return text if text == "all" else int(text)


_rows.__name__ = "number"  # argparse says: invalid number value


def _inspect(options: argparse.Namespace) -> Result:
    from headwise.experiments.inside import given_text, inspect_text

    text = given_text(options.text, who="inspect")
    return inspect_text(
        _open(options.model), text, rows=options.rows, statistic=options.statistic, save=options.save
    )


def _open(name: str | None) -> Model:
    from rich.console import Console

    from headwise.models import DEFAULT, open_model

    with Console(stderr=True).status(f"Opening {name or DEFAULT}"):
        return open_model(name)
