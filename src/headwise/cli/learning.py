"""The commands on attention itself: two sentences, encodings, head counts, order."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from headwise.cli.commands import add_command

if TYPE_CHECKING:
    from headwise.cli.commands import Commands
    from headwise.experiments import Result

POSITIONS = ("none", "integers", "learned", "sinusoidal", "rotary", "alibi")
BY_DISTANCE = ("t5", "kerple-log", "kerple-power", "fire", "sandwich")


def add_learning(commands: Commands) -> None:
    """Add compare, encoding, heads and equivariance."""
    command = add_command(
        commands,
        "compare",
        _compare,
        "what attention makes of two sentences with the same words in another order",
        'headwise compare "the charge exceeded the refund" "the refund exceeded the charge" --plot out.png',
    )
    command.add_argument("first", help="a sentence, in quotes")
    command.add_argument("second", help="the same words in another order, in quotes")
    command.add_argument(
        "--position",
        choices=POSITIONS,
        default="sinusoidal",
        help="encoding of the part without a model (%(default)s)",
    )
    command.add_argument(
        "--model",
        metavar="NAME",
        help="a short name such as smollm2, or a local Hugging Face folder (default: all-MiniLM-L6-v2)",
    )
    command.add_argument("--no-model", action="store_true", help="leave the trained model out")

    command = add_command(
        commands,
        "encoding",
        _encoding,
        "what a positional encoding looks like and does to scores",
        "headwise encoding sinusoidal --length 50 --dim 128 --plot pe.png",
    )
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "name",
        nargs="?",
        choices=POSITIONS + BY_DISTANCE,
        help="which encoding: " + ", ".join(POSITIONS + BY_DISTANCE),
        metavar="NAME",
    )
    which.add_argument("--list", action="store_true", help="what every encoding claims, in one table")
    command.add_argument("--length", type=int, default=50, help="positions, from 0 (%(default)s)")
    command.add_argument("--dim", type=int, default=128, help="dimensions of the model or head (%(default)s)")
    command.add_argument(
        "--base", type=float, default=10000.0, help="the constant of the waves (%(default)g)"
    )

    command = add_command(
        commands,
        "heads",
        _heads,
        "one head against many: parameters, operations, rank, time",
        "headwise heads --model-dim 512 --heads 1 2 4 8 16",
    )
    command.add_argument("--model-dim", type=int, default=512, help="width of the layer (%(default)s)")
    command.add_argument(
        "--heads", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="head counts (1 2 4 8 16)", metavar="N"
    )
    command.add_argument("--length", type=int, default=256, help="tokens in the timed input (%(default)s)")

    command = add_command(
        commands,
        "equivariance",
        _equivariance,
        "permute the words: which attention notices?",
        "headwise equivariance --length 12",
    )
    command.add_argument("--length", type=int, default=12, help="words (%(default)s)")
    command.add_argument("--model-dim", type=int, default=64, help="width of the layer (%(default)s)")
    command.add_argument("--heads", type=int, default=4, help="heads of the layer (%(default)s)")
    command.add_argument("--seed", type=int, default=0, help="of weights, words and order (%(default)s)")


def _compare(options: argparse.Namespace) -> Result:
    from rich.console import Console

    from headwise.experiments.comparison import compare
    from headwise.experiments.words import check_comparable
    from headwise.models import open_text_model

    check_comparable(options.first, options.second)
    with Console(stderr=True).status("Reading both sentences"):
        model = None if options.no_model else open_text_model(options.model, attention="eager")
        return compare(options.first, options.second, model=model, position=options.position)


def _encoding(options: argparse.Namespace) -> Result:
    from headwise.experiments import examine_encoding, list_encodings

    if options.list:
        return list_encodings()
    return examine_encoding(options.name, length=options.length, dim=options.dim, base=options.base)


def _heads(options: argparse.Namespace) -> Result:
    from headwise.experiments import compare_head_counts

    return compare_head_counts(options.model_dim, tuple(options.heads), length=options.length)


def _equivariance(options: argparse.Namespace) -> Result:
    from headwise.experiments import permute_and_compare

    return permute_and_compare(
        length=options.length, model_dim=options.model_dim, heads=options.heads, seed=options.seed
    )
