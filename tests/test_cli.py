"""The command line: help at once, results as text and JSON, bad input in one line and exit code 2."""

import io
import json
import subprocess
import sys

import pytest

from headwise import cli

COMMANDS = ("compare", "encoding", "heads", "equivariance")


def run(capsys, *arguments):
    """(exit code, standard output, standard error) of one command, in this process."""
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def in_a_process(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "headwise.cli", *arguments], capture_output=True, text=True, **options
    )


def test_help_needs_no_torch_and_so_answers_at_once():
    script = "import sys\nfrom headwise import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass\n"
    script += "assert not {'torch', 'numpy', 'rich'} & {name.partition('.')[0] for name in sys.modules}"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_and_json(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert "--json" in out
    assert "--plot" in out
    assert f"example:\n  headwise {command}" in out
    assert all(len(line) <= 100 for line in out.splitlines())


def test_the_help_and_the_version(capsys):
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert all(command in out for command in COMMANDS)
    assert run(capsys, "--version")[1].startswith("headwise 0.")


def test_positions_are_those_the_experiments_know():
    from headwise.cli.learning import POSITIONS
    from headwise.experiments.named import NAMES

    assert POSITIONS == NAMES


SMALL = {
    "compare": ("compare", "cat bites dog", "dog bites cat", "--no-model"),
    "encoding": ("encoding", "sinusoidal", "--length", "6", "--dim", "8"),
    "heads": ("heads", "--model-dim", "16", "--heads", "1", "2", "--length", "8"),
    "equivariance": ("equivariance", "--length", "5", "--model-dim", "8", "--heads", "2"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_its_result_within_80_columns(capsys, command):
    code, out, err = run(capsys, *SMALL[command])
    assert (code, err) == (0, "")
    assert out.count("\n") > 3
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_json_and_nothing_else(capsys, command):
    code, out, _ = run(capsys, *SMALL[command], "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_saves_its_picture_and_says_where(capsys, tmp_path, command):
    path = tmp_path / "picture.png"
    code, out, _ = run(capsys, *SMALL[command], "--plot", str(path))
    assert code == 0
    assert out.endswith(f"Picture: {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_with_json_the_picture_is_named_on_standard_error(capsys, tmp_path):
    _, out, err = run(capsys, *SMALL["encoding"], "--json", "--plot", str(tmp_path / "a.svg"))
    json.loads(out)
    assert "Picture:" in err


def test_compare_reads_the_trained_model(capsys):
    _, out, _ = run(capsys, "compare", "cat bites dog", "dog bites cat", "--json")
    assert json.loads(out)["in_model"]["model"] == "all-MiniLM-L6-v2"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_narrow_terminal_cuts_no_number(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = run(capsys, *SMALL[command])
    assert "\u2026" not in out


PAIR = ("compare", "cat bites dog", "dog bites cat")

# arguments, and words the one line must hold; FOLDER is an empty one
BAD_INPUT = [
    ((), "required: COMMAND"),
    (("campare",), "invalid choice: 'campare'"),
    (("--jsn",), "required: COMMAND"),
    (("compare",), "required: first, second"),
    (("compare", "cat"), "required: second"),
    (("compare", "", "cat"), "the first sentence must be at least one word, got ''"),
    (("compare", "cat", "..."), "the second sentence must be at least one word, got '...'"),
    (("compare", "cat", "dog"), "sentences that share a word"),
    (("compare", "cat", "cat"), "must be different"),
    ((*PAIR, "dog"), "unrecognized arguments: dog"),
    ((*PAIR, "--position", "rope"), "invalid choice: 'rope'"),
    ((*PAIR, "--model", "FOLDER/none"), "There is no such folder"),
    ((*PAIR, "--model", "FOLDER"), "It has no config.json"),
    ((*PAIR, "--model", "FOLDER/pickled"), "the weights must be a .safetensors file"),
    ((*PAIR, "--plot", "FOLDER/no/a.png"), "the output path must be a file in a folder that can be written"),
    ((*PAIR, "--plot", "FOLDER"), "must be one that ends in .png"),
    ((*PAIR, "--plot", "a.gif"), "must be one that ends in .png, .svg, .pdf, got 'a.gif'"),
    ((*PAIR, "--plot"), "expected one argument"),
    ((*PAIR, "--plot", ""), "must be one that ends in .png"),
    (("compare", "caf\udce9 bites", "bites cat"), "the first sentence must be text in UTF-8"),
    (("encoding",), "required: NAME"),
    (("encoding", "fourier"), "invalid choice: 'fourier'"),
    (("encoding", "sinusoidal", "--length", "0"), "length must be"),
    (("encoding", "sinusoidal", "--length", "many"), "invalid int value: 'many'"),
    (("encoding", "sinusoidal", "--dim", "-4"), "dim must be"),
    (("encoding", "sinusoidal", "--base", "-1"), "base must be"),
    (("encoding", "sinusoidal", "--base", "nan"), "base must be"),
    (("encoding", "sinusoidal", "--length", "99999999999"), "length must be"),
    (("encoding", "rotary", "--dim", "7"), "dim must be even for rotary, got 7"),
    (("heads", "--model-dim", "10", "--heads", "4"), "got 4"),
    (("heads", "--model-dim", "0"), "model_dim must be"),
    (("heads", "--heads", "0"), "must be a whole number of at least 1, got 0"),
    (("heads", "--heads"), "expected at least one argument"),
    (("heads", "--length", "0"), "length must be"),
    (("equivariance", "--length", "1"), "length must be"),
    (("equivariance", "--seed", str(2**80)), "seed must be from 0 to 2^63 - 1"),
    (("equivariance", "--heads", "3"), "must be a divisor of model_dim=64, got 3"),
    (("equivariance", "--model-dim", "x"), "invalid int value: 'x'"),
    (("equivariance", "--model-dim", "4", "--heads", "4"), "must be even, got 1"),
]


@pytest.mark.parametrize(
    ("arguments", "words"), BAD_INPUT, ids=[" ".join(a) or "nothing" for a, _ in BAD_INPUT]
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, tmp_path, arguments, words):
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text("{}")
    (pickled / "pytorch_model.bin").write_bytes(b"")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(capsys, *(word.replace("FOLDER", str(tmp_path)) for word in arguments))
    assert (code, out) == (2, "")
    assert words in err
    assert err.startswith("headwise")
    assert err.count("\n") == 1
    assert err.endswith(".\n")
    assert "Traceback" not in err
    assert sorted(tmp_path.rglob("*")) == before


def test_bad_input_in_a_real_process():
    result = in_a_process("compare", "cat", "dog")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("headwise: compare: the two sentences must be")


def test_a_reader_that_stops_early_is_no_error():
    command = [sys.executable, "-m", "headwise.cli", "encoding", "none"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""


@pytest.mark.parametrize(("form", "shown"), [((), "\\xe9t\\xe9"), (("--json",), "\u00e9t\u00e9")])
def test_letters_that_the_terminal_lacks(monkeypatch, form, shown):
    screen = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(screen, encoding="ascii"))
    pair = ("compare", "chat mordu \u00e9t\u00e9", "\u00e9t\u00e9 mordu chat", "--no-model")
    assert cli.main([*pair, *form]) == 0
    assert shown in screen.getvalue().decode("utf-8")


class FullDisk(io.StringIO):
    """Takes nothing."""

    spare = None

    def write(self, text):
        if text:
            raise OSError(28, "No space left on device")
        return 0

    def fileno(self):
        return self.spare


def test_a_full_disk_is_one_line(capsys, monkeypatch, tmp_path):
    with open(tmp_path / "spare", "w") as spare:
        disk = FullDisk()
        disk.spare = spare.fileno()
        monkeypatch.setattr(sys, "stdout", disk)
        code = cli.main(["encoding", "none"])
    assert code == 2
    assert capsys.readouterr().err == "headwise: the result could not be written: No space left on device.\n"
