"""The command line: help at once, results as text and JSON, bad input in one line and exit code 2."""

import io
import json
import re
import subprocess
import sys

import pytest

from headwise import cli
from tests.experiments.roles.batteries import battery

COMMANDS = ("compare", "encoding", "heads", "equivariance", "inspect", "zoom", "ablate", "roles")


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
        [sys.executable, "-m", "headwise", *arguments], capture_output=True, text=True, **options
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


def test_choices_are_those_the_experiments_know():
    from headwise.cli.learning import BY_DISTANCE, POSITIONS
    from headwise.cli.looking import REPLACEMENTS, STATISTICS
    from headwise.experiments import named
    from headwise.experiments.inside.ablating import REPLACEMENTS as KNOWN
    from headwise.look.recordings.sums import STATISTICS as RECORDED

    assert (POSITIONS, BY_DISTANCE) == (named.NAMES, named.BY_DISTANCE)
    assert STATISTICS == RECORDED
    assert tuple(KNOWN) == REPLACEMENTS


SMALL = {
    "compare": ("compare", "cat bites dog", "dog bites cat", "--no-model"),
    "encoding": ("encoding", "sinusoidal", "--length", "6", "--dim", "8"),
    "heads": ("heads", "--model-dim", "16", "--heads", "1", "2", "--length", "8"),
    "equivariance": ("equivariance", "--length", "5", "--model-dim", "8", "--heads", "2"),
    "inspect": ("inspect", "The cat sat on the mat."),
    "zoom": ("zoom", "RECORDING", "--head", "3.5", "--queries", "1:6", "--keys", "0:7"),
    "ablate": ("ablate", "The cat sat on the mat.", "--heads", "0.2", "1.1", "--draws", "1"),
    "roles": ("roles", "--role", "position"),
}


@pytest.fixture(scope="session")
def recording(tmp_path_factory):
    """A folder that inspect --save has made."""
    folder = tmp_path_factory.mktemp("cli") / "recording"
    assert cli.main(["inspect", "The cat sat on the mat.", "--json", "--save", str(folder)]) == 0
    return str(folder)


@pytest.fixture
def small(recording, monkeypatch):
    """Arguments of a command on a small input; roles are not read, which takes long, but made by hand."""
    monkeypatch.setattr("headwise.experiments.roles.running.run_roles", lambda *given, **options: battery())
    return lambda command: [word.replace("RECORDING", recording) for word in SMALL[command]]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_its_result_within_80_columns(capsys, small, command):
    code, out, err = run(capsys, *small(command))
    assert (code, err) == (0, "")
    assert out.count("\n") > 3
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_json_and_nothing_else(capsys, small, command):
    code, out, _ = run(capsys, *small(command), "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_saves_its_picture_and_says_where(capsys, tmp_path, small, command):
    path = tmp_path / "picture.png"
    code, out, _ = run(capsys, *small(command), "--plot", str(path))
    assert code == 0
    assert out.endswith(f"Picture: {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_encodings_are_listed_with_their_claims(capsys):
    code, out, err = run(capsys, "encoding", "--list")
    assert (code, err) == (0, "")
    assert all(len(line.rstrip()) <= 80 for line in out.splitlines())
    assert re.search(r"^T5Bias +scores +yes +yes +yes +1910.10683 *$", out, re.MULTILINE)
    claims = {
        one["name"]: one for one in json.loads(run(capsys, "encoding", "--list", "--json")[1])["encodings"]
    }
    assert claims["Learned"]["any_length"] is False


def test_with_json_the_picture_is_named_on_standard_error(capsys, tmp_path):
    _, out, err = run(capsys, *SMALL["encoding"], "--json", "--plot", str(tmp_path / "a.svg"))
    json.loads(out)
    assert "Picture:" in err


def test_compare_reads_the_trained_model(capsys):
    _, out, _ = run(capsys, "compare", "cat bites dog", "dog bites cat", "--json")
    assert json.loads(out)["in_model"]["model"] == "all-MiniLM-L6-v2"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_narrow_terminal_cuts_no_number(capsys, monkeypatch, small, command):
    monkeypatch.setenv("COLUMNS", "40")
    _, out, _ = run(capsys, *small(command))
    assert "\u2026" not in out


def test_roles_are_given_what_the_command_line_says(capsys, monkeypatch, tmp_path):
    given = {}

    def run_roles(model, sources, **options):
        given.update(model=model.name, sources=[source.name for source in sources], **options)
        return battery()

    monkeypatch.setattr("headwise.experiments.roles.running.run_roles", run_roles)
    (tmp_path / "mine.json").write_text('{"text": "It ran."}')
    arguments = ("--text", MAT, "--labels", str(tmp_path / "mine.json"), "--role", "syntax", "next token")
    code, _, err = run(capsys, "roles", *arguments, "--confirm", "--untrained", "2", "--seed", "4")
    assert (code, err) == (0, "")
    assert given == {
        "model": "all-MiniLM-L6-v2",
        "sources": ["a text of 1 sentence", "mine.json"],
        "roles": ["syntax", "next token"],
        "confirm": True,
        "untrained": 2,
        "seed": 4,
    }


def test_roles_are_read_from_a_text(capsys, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"Room {number} was let to a quiet man." for number in range(24)))
    code, out, _ = run(capsys, "roles", "--text", str(text), "--role", "next token", "--json")
    battery = json.loads(out)
    [role] = battery["roles"]
    assert (code, role["role"], role["data"], role["texts"]) == (0, "next token", "text.txt", 24)
    assert [len(row) for row in battery["of_heads"]] == [12] * 6
    assert all(head["score"] >= 0.5 for head in role["heads"])  # what it takes to hold it


PAIR = ("compare", "cat bites dog", "dog bites cat")
MAT = "The cat sat on the mat."
PLAIN = ("--model", "torch.nn:Identity")

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
    (("encoding",), "one of the arguments NAME --list is required"),
    (("encoding", "t5", "--list"), "argument --list: not allowed with argument NAME"),
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
    (("inspect",), "required: TEXT-or-FILE"),
    (("inspect", ""), "the text must be at least one word, got ''"),
    (("inspect", "FOLDER"), "the text must be a file that can be read"),
    (("inspect", "FOLDER/none.txt"), "There is no file of that name"),
    (("inspect", "none.txt"), "There is no file of that name"),
    (("inspect", "FOLDER/bytes.txt"), "the text must be a file in UTF-8"),
    (("inspect", "caf\udce9"), "the text must be in UTF-8"),
    (("inspect", "word " * 600), "the text must be at most 512 tokens, got 602"),
    (("inspect", MAT, "--rows", "0"), "rows must be a whole number of at least 1, got 0"),
    (("inspect", MAT, "--rows", "most"), "invalid number value: 'most'"),
    (("inspect", MAT, "--statistic", "mood"), "invalid choice: 'mood'"),
    (("inspect", MAT, "--save", "FOLDER/bytes.txt"), "the folder must be one that can be made"),
    (("inspect", MAT, "--model", "FOLDER/none"), "There is no such folder"),
    (("inspect", MAT, *PLAIN), "the text must be token numbers such as 5,17,3"),
    (("inspect", "1,2", *PLAIN), "no attention at all"),
    (("inspect", "9" * 30, *PLAIN), "token numbers of 64 bits"),
    (("zoom",), "required: DIR, --head"),
    (("zoom", "FOLDER"), "required: --head"),
    (("zoom", "FOLDER", "--head", "3.5"), "the folder must be one with a whole recording"),
    (("zoom", "RECORDING", "--head", "7.0"), "the layer must be 0 to 5, or one of their names, got 7"),
    (("zoom", "RECORDING", "--head", "0.12"), "the head must be 0 to 11, got 12"),
    (("zoom", "RECORDING", "--head", "five"), "a head must be a layer and a number from 0"),
    (("zoom", "RECORDING", "--head", "0.0", "--queries", "0:10"), "queries must be a range within 0:9"),
    (
        ("zoom", "RECORDING", "--head", "0.0", "--keys", "5"),
        "keys must be two numbers as in 100:160, got '5'",
    ),
    (("zoom", "RECORDING", "--head", "0.0", "--text", "2"), "queries and keys of text 2 must be kept"),
    (("ablate", MAT), "required: --heads"),
    (("ablate", MAT, "--heads"), "expected at least one argument"),
    (("ablate", MAT, "--heads", "6.0"), "the layer of head 6.0 must be"),
    (("ablate", MAT, "--heads", "0.12"), "the head of 0.12 must be from 0 to 11, got 12"),
    (("ablate", MAT, "--heads", "0.0", "--to", "noise"), "invalid choice: 'noise'"),
    (("ablate", MAT, "--heads", "0.0", "--draws", "-1"), "draws must be"),
    (("ablate", MAT, "--heads", "0.0", "--seed", "-1"), "seed must be from 0 to 2^63 - 1, got -1"),
    (("ablate", "1,2", "--heads", "0.0", *PLAIN), "Identity"),
    (("roles", "--treebank"), "expected at least one argument"),
    (("roles", "--treebank", "FOLDER/none.conllu"), "the file must be a CoNLL-U file that can be read"),
    (("roles", "--treebank", "FOLDER/bytes.txt"), "bytes.txt:1: the text must be UTF-8"),
    (("roles", "--labels", "FOLDER/none.json"), "the file must be a JSON file that can be read"),
    (("roles", "--text", "FOLDER/none.txt"), "There is no file of that name"),
    (("roles", "--text", "Too short."), "at least one sentence of 5 to 30 words"),
    (("roles", "--trees", "en"), "the pipeline for trees must be given with a text, got 'en'"),
    (("roles", "--text", MAT, "--trees", "no_such"), "must be installed"),
    (("roles", "--seed", "-1"), "seed must be from 0 to 2^63 - 1, got -1"),
    (("roles", "--untrained", "-1"), "untrained must be from 0 to 2^63 - 1, got -1"),
    (("roles", "--seed", "many"), "invalid int value: 'many'"),
    (("roles", "--role"), "expected at least one argument"),
    (("roles", "--role", "charm"), "'charm'"),
    (("roles", "--model", "FOLDER/none"), "There is no such folder"),
    (("roles", *PLAIN), "the model must be one that reads text, got Identity"),
]


@pytest.mark.parametrize(
    ("arguments", "words"), BAD_INPUT, ids=[" ".join(a)[:60] or "nothing" for a, _ in BAD_INPUT]
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, tmp_path, recording, arguments, words):
    (tmp_path / "bytes.txt").write_bytes(b"caf\xe9")
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text("{}")
    (pickled / "pytorch_model.bin").write_bytes(b"")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(
        capsys, *(word.replace("FOLDER", str(tmp_path)).replace("RECORDING", recording) for word in arguments)
    )
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
    command = [sys.executable, "-m", "headwise", "encoding", "none"]
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
