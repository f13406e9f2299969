"""The README and CONTRIBUTING are true: snippets run, commands give what is printed, the tree is the tree."""

import doctest
import os
import re
import shlex
from pathlib import Path

import pytest
import torch

from headwise import cli
from headwise.layers import positions

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


# each snippet of the README stands alone; those of CONTRIBUTING are steps of one example
STEPS = "\n".join(blocks((ROOT / "CONTRIBUTING.md").read_text(), "python"))
PYTHON = [*(("README.md", block) for block in blocks(README, "python")), ("CONTRIBUTING.md", STEPS)]


def test_there_are_four_snippets():
    assert len(blocks(README, "python")) + len(blocks(README, "console")) >= 4


@pytest.mark.parametrize(("name", "block"), PYTHON, ids=[f"{name}-{i}" for i, (name, _) in enumerate(PYTHON)])
def test_a_python_snippet_runs_and_prints_what_it_says(name, block):
    torch.manual_seed(0)
    example = doctest.DocTestParser().get_doctest(block, {}, name, name, 0)
    assert example.examples, "a snippet without an example proves nothing"
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(example, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("block", blocks(README, "console"))
def test_a_command_prints_what_the_readme_shows(capsys, block):
    command, *shown = block.splitlines()
    assert command.startswith("$ headwise ")
    assert cli.main(shlex.split(command)[2:]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed == shown


def test_pictures_that_the_readme_shows_are_there():
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).is_file(), path


def tree_lines():
    tree = next(block for block in blocks(README, "text") if "src/headwise/" in block)
    folders = {0: ROOT}
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, _, caption = line.strip().partition(" ")
        path = folders[depth] / name
        folders[depth + 1] = path
        yield path, caption.strip()


def test_the_tree_names_every_file_and_says_what_it_is_for():
    shown = dict(tree_lines())
    assert all(path.exists() for path in shown), [path for path in shown if not path.exists()]
    assert all(caption for path, caption in shown.items()), "a line without a caption"
    real = {path for path in (ROOT / "src" / "headwise").rglob("*.py") if path.name != "__init__.py"}
    assert real - shown.keys() == set()


def test_no_file_names_this_machine():
    home = os.fspath(ROOT)
    for path in ROOT.glob("*.md"):
        assert home not in path.read_text()


def test_the_table_of_encodings_is_what_the_classes_claim():
    shown = [line for line in README.splitlines() if line.startswith("| `")]
    assert shown == [
        f"| `{name}` | {' and '.join(kind.acts_on) or 'nothing'} | {'yes' if kind.relative else 'no'} "
        f"| {'yes' if kind.any_length else 'no'} | {'yes' if kind.cacheable else 'no'} | {kind.source} |"
        for name in positions.__all__
        for kind in [getattr(positions, name)]
        if hasattr(kind, "relative")  # a Chain has claims once it is made
    ]
