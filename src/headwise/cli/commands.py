"""What every command has: help with an example, --json, --plot, and errors in one line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from headwise.experiments import Result

    Commands = argparse._SubParsersAction["Parser"]  # argparse has no other name for it

BAD_INPUT = 2
Run = Callable[[argparse.Namespace], "Result"]


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}. Run '{self.prog} --help' for an example.\n")
        sys.exit(BAD_INPUT)


def add_command(
    commands: Commands,
    name: str,
    run: Run,
    purpose: str,
    example: str,
) -> Parser:
    command: Parser = commands.add_parser(
        name,
        help=purpose,
        description=purpose[0].upper() + purpose[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    command.add_argument("--json", action="store_true", help="print every figure as JSON")
    command.add_argument("--plot", metavar="FILE", help="save a picture (.png, .svg or .pdf)")
    return command
