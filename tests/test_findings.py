"""The reproductions of docs/findings.md print what the page says, each in a namespace of its own."""

import contextlib
import io
import re
from importlib.metadata import version
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "findings.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```\n```text\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
OURS = ("torch", "transformers", "x-transformers")  # the others need an environment of their own


def imported(code):
    return set(re.findall(r"^(?:from|import) (\w+)", code, flags=re.MULTILINE))


def as_named():
    """The packages whose installed version is the one that the page is about: a later one may be mended."""
    named = {name: re.search(rf"[\s(]{name} ([\d.]+\d)", PAGE)[1] for name in OURS}
    return {name.replace("-", "_") for name in OURS if version(name).partition("+")[0] == named[name]}


STANDARD = {"tempfile"}
RUNNABLE = [block for block in BLOCKS if imported(block[0]) <= as_named() | STANDARD]


def test_every_reproduction_says_what_it_prints():
    assert PAGE.count("```python") == len(BLOCKS) >= 15
    assert all(shown.strip() for _, shown in BLOCKS)
    others = {name for code, _ in BLOCKS for name in imported(code)} - {n.replace("-", "_") for n in OURS}
    assert others == STANDARD | {"rotary_embedding_torch", "litgpt", "equinox", "jax"}


@pytest.mark.filterwarnings("ignore")  # other people's code
@pytest.mark.parametrize(("code", "shown"), RUNNABLE, ids=range(len(RUNNABLE)))
def test_a_reproduction_prints_what_the_page_shows(code, shown):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/findings.md", "exec"), {"__name__": "reproduction"})
    assert printed.getvalue() == shown
