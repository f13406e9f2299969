"""What headwise check can be pointed at, and the one line for what it cannot."""

import json
import signal
import subprocess
import sys

import pytest
import torch
from torch import nn

from headwise.core import HeadwiseError
from headwise.experiments.check_apart import check_apart
from headwise.experiments.check_target import check_target, open_target

FILE = """
import os
import threading
import time

import torch
from torch import nn

print("a line that is no part of the result")


class Sums(nn.Linear):
    def __init__(self):
        super().__init__(4, 4)

    def forward(self, x):
        return super().forward(x).cumsum(1)


class Needs(nn.Module):
    def __init__(self, width):
        super().__init__()


def raises():
    raise RuntimeError("no weights here")


def gives_a_number():
    return 3


def hangs():
    time.sleep(60)


def goes_on():
    threading.Thread(target=time.sleep, args=(90,)).start()
    return Sums()


def leaves():
    os._exit(7)


def exits():
    raise SystemExit(3)


class Mean(Sums):
    def forward(self, x):
        return x.mean(1)


class Odd(Sums):
    def forward(self, x):
        return x.shape[0], x.mean(1), None


class Random(Sums):
    def forward(self, x):
        return super().forward(x) + torch.rand(4)


class Bad(Sums):
    def forward(self, x):
        return super().forward(x) * torch.nan


class Two(Sums):
    def forward(self, x, other):
        return x + other


class Raises(Sums):
    def forward(self, x):
        raise KeyError("no such thing")


number = 3
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("targets") / "mine.py"
    path.write_text(FILE)
    return str(path)


def failing(checked):
    return [outcome.name for outcome in checked.failures]


def test_a_class_in_a_file_is_built_and_checked(file):
    assert check_target(f"{file}:Sums", expect="causal", only="causality lifecycle").passed


def test_a_factory_in_a_module_and_a_function_itself(monkeypatch, file):
    monkeypatch.chdir(file.removesuffix("/mine.py"))
    opened = open_target("mine:Sums")
    assert type(opened.thing).__name__ == "Sums"
    assert type(opened.make()).__name__ == "Sums"
    attend = open_target("torch.nn.functional:scaled_dot_product_attention")
    assert attend.thing is nn.functional.scaled_dot_product_attention


def test_a_folder_is_opened_with_its_weights_and_a_config_alone_is_built(tmp_path):
    from transformers import AutoConfig, AutoModelForCausalLM

    from headwise.check.subjects.small import smaller

    model = AutoModelForCausalLM.from_config(smaller(AutoConfig.for_model("gpt2")))
    model.config.save_pretrained(tmp_path)
    assert type(open_target(str(tmp_path)).thing).__name__ == "GPT2Config"
    model.save_pretrained(tmp_path)
    opened = open_target(str(tmp_path)).thing
    assert torch.equal(opened.transformer.wte.weight, model.transformer.wte.weight)
    assert check_target(str(tmp_path), only="batch").passed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Needs", "a class that is made without arguments, got one that needs width"),
        (
            "raises",
            "a factory that works without arguments, got one that fails. It raises RuntimeError: no weights",
        ),
        ("exits", "It raises SystemExit: 3"),
        ("gives_a_number", "a module or a function, got int"),
        ("number", "a module or a function, got int"),
        ("nothing", "a name in that module, got 'nothing'. It has Sums, Needs, raises"),
        ("Mean", "got float32 of shape [2, 4] for 2 sequences of 6 float32 vectors of 4"),
        ("Odd", "got a tuple of int and [2, 4] and None for 2 sequences"),
        ("Two", "Two needs other as well. Pass call="),
        ("Raises", "got KeyError ('no such thing') for 2 sequences"),
    ],
)
def test_a_bad_target_is_one_line(file, name, words):
    with pytest.raises(HeadwiseError) as caught:
        check_target(f"{file}:{name}")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("mine", "no colon names what to check"),
        (":name", "no colon names what to check"),
        ("no_such_module:build", "It raises ModuleNotFoundError: No module named 'no_such_module'"),
        ("no_such_file.py:build", "There is no such file"),
        ("config:no-such-model", "such as config:llama, got 'no-such-model'"),
    ],
)
def test_a_target_that_is_not_there_is_one_line(target, words):
    with pytest.raises(HeadwiseError) as caught:
        check_target(target)
    assert words in str(caught.value)


def test_an_empty_folder_is_one_line(tmp_path):
    with pytest.raises(HeadwiseError, match="must be a folder that save_pretrained wrote"):
        check_target(str(tmp_path))


@pytest.mark.parametrize(("name", "fails"), [("Random", "evaluation"), ("Bad", "finite")])
def test_a_target_without_a_steady_or_finite_answer_fails_at_once(file, name, fails):
    checked = check_target(f"{file}:{name}")
    assert failing(checked) == [fails]
    assert len(checked.outcomes) == 2


def test_a_process_of_its_own_gives_the_same_outcome(file):
    checked = check_apart(f"{file}:Sums", expect=("causal",), only=("causality",))
    assert checked == check_target(f"{file}:Sums", expect=("causal",), only=("causality",))


def test_what_hangs_is_stopped_and_what_leaves_is_noticed(file):
    with pytest.raises(HeadwiseError, match=r"must be checked within 1 s, got no answer\. It was stopped"):
        check_apart(f"{file}:hangs", timeout=1)
    with pytest.raises(HeadwiseError, match=r"got exit code 7\. Its last line is 'a line that is no part"):
        check_apart(f"{file}:leaves")


def test_a_thread_that_the_target_leaves_behind_is_not_waited_for(file):
    assert check_apart(f"{file}:goes_on", only=("batch",), timeout=60).passed


def test_a_process_whose_parent_is_gone_stops_itself(file, monkeypatch, tmp_path):
    """The parent may be killed before it can stop the other process."""
    question = json.dumps({"target": f"{file}:hangs", "expect": [], "only": [], "timeout": 1})
    code = f"from headwise.experiments import check_apart as a; a.GRACE = 0; a.main('answer', {question!r})"
    ended = subprocess.run([sys.executable, "-c", code], timeout=60, cwd=tmp_path)
    assert ended.returncode == -signal.SIGALRM
