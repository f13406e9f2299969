"""What CONTRIBUTING says of a new encoding: one file, and one line in the table of encodings.

A copy of the library gets the page's own toy that way, faulty ones, and a file whose line was forgotten. The
copy's tests of every encoding run on them: the first passes them all, each of the others is caught.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = [
    "conftest.py",
    "src/headwise/__init__.py",
    "src/headwise/reference.py",
    "src/headwise/core",
    "src/headwise/layers",
    "tests/oracle.py",
    "tests/core/cases.py",
    "src/headwise/errors.py",
    *(f"tests/layers/{name}.py" for name in ("encodings", "on_a_line", "rotary_family")),
    *(f"tests/layers/test_{name}.py" for name in ("claims", "properties")),
    *(f"tests/{folder}__init__.py" for folder in ("", "core/", "layers/")),
]
# what is changed in the page's code, and the test that says so
FAULTS = [
    (
        "distance = (",
        "distance = (query_positions[..., :1, None] + ",  # where a block begins
        "test_a_relative_one_does_not_notice_a_shift",
    ),
    (
        "distance = (",
        "self.calls = getattr(self, 'calls', 0) + 1\n        distance = self.calls * (",
        "test_nothing_is_kept_between_calls",
    ),
    ("return falling[:, None]", "return 0 * falling[:, None]", "test_with_an_encoding_order_matters"),
    ("return falling[:, None]", "return falling[:1, None]", "test_positions_of_rows_are_each_row_alone"),
]


def page_code():
    """The encoding that CONTRIBUTING shows, as the text of a file."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    block = next(
        code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class Recency" in code
    )
    return "".join(line[4:] + "\n" for line in block.splitlines())


def copied(folder):
    """What the tests of every encoding need, in that folder."""
    for name in NEEDED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    properties = folder / "tests/layers/test_properties.py"  # two drawn cases each, to be quick
    properties.write_text(properties.read_text().replace("max_examples=12", "max_examples=2"))


def add_encoding(folder, file, code, *, line=True):
    """As CONTRIBUTING has it: a file, and a line in the table."""
    (folder / f"src/headwise/layers/positions/{file}.py").write_text(
        code.replace("Recency", file.capitalize())
    )
    if line:
        table = folder / "tests/layers/encodings.py"
        entry = f'    "{file}": lambda model_dim, heads: every.{file.capitalize()}(),\n'
        table.write_text(table.read_text().replace("ENCODINGS = {\n", "ENCODINGS = {\n" + entry, 1))


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    """{test: what it says, or None if it passes} of one run in a copy that holds the toys."""
    folder = tmp_path_factory.mktemp("copy")
    copied(folder)
    code = page_code()
    add_encoding(folder, "recency", code)
    add_encoding(folder, "forgotten", code, line=False)
    chosen = ["recency", "table_holds"]
    for number, (right, wrong, test) in enumerate(FAULTS):
        assert code.count(right) == 1
        add_encoding(folder, f"faulty{number}", code.replace(right, wrong))
        chosen.append(f"(faulty{number} and {test})")
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}"]
    result = subprocess.run(
        [*command, "-k", " or ".join(chosen), "tests/layers"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
    )
    assert report.exists(), result.stdout + result.stderr
    cases = ElementTree.parse(report).iter("testcase")
    return {case.get("name"): next((part.get("message") for part in case), None) for case in cases}


def test_one_file_and_one_line_put_an_encoding_under_every_test(failures):
    of_recency = {test: said for test, said in failures.items() if "recency" in test}
    assert len(of_recency) > 15
    assert not any(of_recency.values()), of_recency


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_a_faulty_one_is_caught(failures, number):
    test = FAULTS[number][2]
    said = [said for name, said in failures.items() if f"faulty{number}" in name and name.startswith(test)]
    assert said
    assert all(said)


def test_a_forgotten_line_is_asked_for(failures):
    assert "Forgotten" in failures["test_the_table_holds_every_encoding"]
