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
REPLACEMENTS = ("zero", "mean", "uniform")
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

    command = add_command(
        commands,
        "zoom",
        _zoom,
        "every weight of one head in a window of a recording that inspect saved",
        "headwise zoom recording --head 3.5 --queries 100:160 --keys 80:160",
    )
    command.add_argument("folder", metavar="DIR", help="the folder given to headwise inspect --save")
    command.add_argument("--head", required=True, metavar="L.H", help="layer and query head, counted from 0")
    command.add_argument("--queries", metavar="A:B", help="from A to before B (default: the first 64)")
    command.add_argument("--keys", metavar="A:B", help="the same for keys (default: as the queries)")
    command.add_argument("--text", type=int, default=0, help="which text, if it has several (%(default)s)")

    command = add_command(
        commands,
        "ablate",
        _ablate,
        "what a model loses on a text without some heads, beside random heads of the same layers",
        'headwise ablate "The cat sat on the mat. The cat sat on" --model smollm2 --heads 18.6 17.3',
    )
    command.add_argument("text", metavar="TEXT-or-FILE", help=_TEXT)
    command.add_argument(
        "--heads", required=True, nargs="+", metavar="L.H", help="layer and query head, counted from 0"
    )
    _add_model(command)
    command.add_argument(
        "--to",
        choices=REPLACEMENTS,
        default="zero",
        metavar="WORD",
        help="what replaces a head's output: %(choices)s (%(default)s)",
    )
    command.add_argument("--draws", type=int, default=5, help="of random heads, to compare (%(default)s)")
    command.add_argument("--seed", type=int, default=0, help="of those draws (%(default)s)")


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


def _zoom(options: argparse.Namespace) -> Result:
    from headwise.experiments.inside import zoom

    return zoom(options.folder, options.head, queries=options.queries, keys=options.keys, text=options.text)


def _ablate(options: argparse.Namespace) -> Result:
    from headwise.experiments.inside import ablate_heads, given_text

    text = given_text(options.text, who="ablate")
    model = _open(options.model)
    return ablate_heads(model, text, options.heads, to=options.to, draws=options.draws, seed=options.seed)


def _open(name: str | None) -> Model:
    from rich.console import Console

    from headwise.models import DEFAULT, open_model

    with Console(stderr=True).status(f"Opening {name or DEFAULT}"):
        return open_model(name)
