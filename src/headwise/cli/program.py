"""Runs one command: its result as a page or as JSON, its picture, and bad input as one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, TextIO

from headwise.cli.commands import BAD_INPUT
from headwise.cli.parser import build_parser

if TYPE_CHECKING:
    from headwise.experiments import Result

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 if a check fails, or 2 for bad input, in one line."""
    options = build_parser().parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if isinstance(sys.stdout, TextIOWrapper):  # JSON is UTF-8 everywhere; an old terminal may lack a letter
        encoding, errors = ("utf-8", "strict") if options.json else (None, "backslashreplace")
        sys.stdout.reconfigure(encoding=encoding, errors=errors)
    try:
        return _show(options)
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return INTERRUPTED


def _show(options: argparse.Namespace) -> int:
    from headwise.errors import HeadwiseError

    try:
        if options.plot is not None:
            from headwise.core.figures import check_picture

            check_picture(options.plot, who="--plot")
        result: Result = options.run(options)
        code = (
            _write(sys.stdout, result.to_json() + "\n") if options.json else _write(sys.stdout, _page(result))
        )
        if options.plot is not None and code == 0:
            path = result.plot(options.plot)
            code = _write(sys.stderr if options.json else sys.stdout, f"\nPicture: {path}\n")
    except HeadwiseError as error:
        sys.stderr.write(f"headwise: {error}\n")
        return BAD_INPUT
    return code or int(not getattr(result, "passed", True))


def _page(result: Result) -> str:
    from rich.console import Console

    console = Console()
    with console.capture() as page:
        console.print(result, crop=False)
    return page.get()


def _write(stream: TextIO, text: str) -> int:
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # or Python complains once more at its end
        if isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
            return 0
        sys.stderr.write(f"headwise: the result could not be written: {error.strerror}.\n")
        return BAD_INPUT
    return 0
