"""The command line: parse, call one public function, print what it returns. Heavy imports wait for that."""

from headwise.cli.program import main

__all__ = ["main"]
