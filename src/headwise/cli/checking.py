"""The command that proves: every property of a layer, a function or a model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status

    from headwise.check import Checked
    from headwise.cli.commands import Commands

_ABOUT = """\
Check every property of a layer, a function or a model: causality, padding, cache, history and more.

TARGET is package.module:factory, path/to/file.py:Class, a local Hugging Face folder, or config:NAME, an
architecture that Hugging Face transformers knows, built small with random weights. Nothing is downloaded.
This runs the code that TARGET names, in a process of its own.
"""
_EXAMPLES = """\
examples:
  headwise check my_model.py:Attention --expect causal window=128
  headwise check config:llama --only causality cache

exit code: 0 if no property fails, 1 if one does, 2 if the target cannot be checked
"""


def add_checking(commands: Commands) -> None:
    """Add check."""
    command = commands.add_parser(
        "check",
        help="every property of a layer or model: causality, padding, cache, history and more",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=_check, plot=None)
    command.add_argument("target", metavar="TARGET", help="what to check; its code is run")
    command.add_argument(
        "--expect",
        nargs="+",
        default=[],
        metavar="CLAIM",
        help="what you claim: causal, bidirectional, window=N, order-blind, order-aware, relative, "
        "left-padding, scaled, empty-zeros",
    )
    command.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="properties to check (default: all that apply)"
    )
    command.add_argument(
        "--timeout",
        type=int,
        default=120,
        metavar="SECONDS",
        help="stop a target that takes longer (%(default)s)",
    )
    command.add_argument("--json", action="store_true", help="print every figure as JSON")


def _check(options: argparse.Namespace) -> Checked:
    from headwise.experiments.check_apart import check_apart

    def waiting() -> Status:
        from rich.console import Console

        return Console(stderr=True).status(f"Checking {options.target}")

    return check_apart(
        options.target,
        expect=tuple(options.expect),
        only=tuple(options.only),
        timeout=options.timeout,
        waiting=waiting,
    )
