"""The parser of the whole command line."""

from __future__ import annotations

import argparse

from headwise.cli.checking import add_checking
from headwise.cli.commands import Parser
from headwise.cli.learning import add_learning
from headwise.cli.looking import add_looking
from headwise.cli.roles import add_roles


def build_parser() -> argparse.ArgumentParser:
    """All commands."""
    from headwise import __version__

    parser = Parser(
        prog="headwise",
        description="Multi-head attention and positional encoding: see what order does, look inside models.",
        epilog='example:\n  headwise compare "cat bites dog" "dog bites cat"',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"headwise {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    add_learning(commands)
    add_looking(commands)
    add_roles(commands)
    add_checking(commands)
    return parser
