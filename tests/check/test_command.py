"""headwise check on the command line: exit codes, a table, JSON, bad input; and headwise.testing."""

import json
import subprocess
import sys

import pytest

from headwise import cli, testing
from headwise.check import layer
from tests.check.own import Attention


@pytest.fixture(scope="module")
def leaky(tmp_path_factory):
    path = tmp_path_factory.mktemp("command") / "leaky.py"
    path.write_text(
        "from tests.check.own import Attention\n\n\ndef build():\n    return Attention(ahead=1)\n"
    )
    return f"{path}:build"


def run(capsys, *arguments):
    try:
        code = cli.main(["check", *arguments])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_help_says_that_code_is_run_and_what_the_exit_codes_mean(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "This runs the code that TARGET names" in out
    assert "exit code: 0 if no property fails, 1 if one does, 2 if the target cannot be checked" in out
    assert all(len(line) <= 110 for line in out.splitlines())


def test_a_false_claim_is_a_table_and_exit_code_1(capsys, leaky):
    code, out, err = run(capsys, leaky, "--expect", "causal", "--only", "causality", "batch")
    assert (code, err) == (1, "")
    assert "Attention, claimed causal: 1 property fails." in out
    assert "with the input at 1, of 2" in " ".join(out.split())


def test_json_and_exit_code_0(capsys, leaky):
    code, out, _ = run(capsys, leaky, "--json", "--only", "causality")
    assert code == 0
    assert json.loads(out)["outcomes"][0]["verdict"] == "fails"  # found, and not claimed


def test_the_parent_imports_no_torch_whatever_comes_of_it(leaky):
    lines = [
        "import sys",
        "from headwise import cli",
        f"codes = [cli.main(['check', {leaky!r}, '--expect', 'causal', '--only', 'batch', 'causality'])]",
        "codes += [cli.main(['check', 'nowhere.py:A', '--timeout', each]) for each in ('60', '0')]",
        "loaded = {'torch', 'numpy', 'jaxtyping'} & set(sys.modules)",
        "assert (codes, loaded) == ([1, 2, 2], set()), (codes, loaded)",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "the following arguments are required: TARGET"),
        (("nowhere.py:A",), "There is no such file"),
        (
            ("torch.nn:Identity", "--timeout", "0"),
            "timeout must be a whole number of seconds, at least 1, got 0",
        ),
        (("torch.nn:Identity", "--expect", "quick"), "what is claimed must be of causal"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, arguments, words):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


SOUND = testing.properties(Attention, expect="causal", only="batch causality paths")


@pytest.mark.parametrize("holds", SOUND)
def test_ready_parameters(holds):
    holds()


def test_ready_parameters_have_names_and_fail_one_by_one():
    assert [param.id for param in SOUND] == ["batch", "causality", "paths"]
    params = testing.properties(
        lambda: Attention(ahead=1), check=layer, expect="causal", only="batch causality"
    )
    batch, causality = (param.values[0] for param in params)
    batch()
    with pytest.raises(AssertionError, match="the output at 0 changes by"):
        causality()
