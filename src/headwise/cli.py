"""The command line: parse, call one public function, print what it returns. Heavy imports wait for that."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from headwise.experiments import Result

POSITIONS = ("none", "integers", "learned", "sinusoidal", "rotary", "alibi")
BAD_INPUT = 2
INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}. Run '{self.prog} --help' for an example.\n")
        sys.exit(BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, or 2 for bad input, said in one line."""
    options = _parser().parse_args(arguments)
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
    from headwise.core import HeadwiseError
    from headwise.core.figures import check_picture

    try:
        if options.plot is not None:
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
    return code


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


def _compare(options: argparse.Namespace) -> Result:
    from rich.console import Console

    from headwise.experiments.compare import compare
    from headwise.experiments.words import check_comparable
    from headwise.models import open_text_model

    check_comparable(options.first, options.second)
    with Console(stderr=True).status("Reading both sentences"):
        model = None if options.no_model else open_text_model(options.model, attention="eager")
        return compare(options.first, options.second, model=model, position=options.position)


def _encoding(options: argparse.Namespace) -> Result:
    from headwise.experiments import examine_encoding

    return examine_encoding(options.name, length=options.length, dim=options.dim, base=options.base)


def _heads(options: argparse.Namespace) -> Result:
    from headwise.experiments import compare_head_counts

    return compare_head_counts(options.model_dim, tuple(options.heads), length=options.length)


def _equivariance(options: argparse.Namespace) -> Result:
    from headwise.experiments import permute_and_compare

    return permute_and_compare(
        length=options.length, model_dim=options.model_dim, heads=options.heads, seed=options.seed
    )


def _parser() -> argparse.ArgumentParser:
    from headwise import __version__

    parser = _Parser(
        prog="headwise",
        description="Multi-head attention and positional encoding: see what order does.",
        epilog='example:\n  headwise compare "cat bites dog" "dog bites cat"',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"headwise {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    command = _command(
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

    command = _command(
        commands,
        "encoding",
        _encoding,
        "what a positional encoding looks like and does to scores",
        "headwise encoding sinusoidal --length 50 --dim 128 --plot pe.png",
    )
    command.add_argument("name", choices=POSITIONS, help="which encoding: %(choices)s", metavar="NAME")
    command.add_argument("--length", type=int, default=50, help="positions, from 0 (%(default)s)")
    command.add_argument("--dim", type=int, default=128, help="dimensions of the model or head (%(default)s)")
    command.add_argument(
        "--base", type=float, default=10000.0, help="the constant of the waves (%(default)g)"
    )

    command = _command(
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

    command = _command(
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
    return parser


def _command(
    commands: argparse._SubParsersAction[_Parser],
    name: str,
    run: Callable[[argparse.Namespace], Result],
    purpose: str,
    example: str,
) -> _Parser:
    command = commands.add_parser(
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


if __name__ == "__main__":
    sys.exit(main())
