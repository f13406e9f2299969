"""Answers that depend on what was asked before, and the shortest story that shows it."""

import pytest
import torch

from headwise.check import Tokens, Vectors, history


class Remembers:
    """Adds something that ``rule(memory, x)`` makes of a memory which each call may change."""

    def __init__(self, rule):
        self.rule, self.memory = rule, {}

    def __call__(self, x):
        return x.cumsum(1) + self.rule(self.memory, x)


def count_calls(memory, x):
    memory["calls"] = memory.get("calls", 0) + 1
    return memory["calls"]


def longest(memory, x):
    memory["longest"] = max(memory.get("longest", 0), x.shape[1])
    return memory["longest"]


def shortest(memory, x):
    memory["shortest"] = min(memory.get("shortest", 99), x.shape[1])
    return memory["shortest"]


def most_rows(memory, x):
    memory["rows"] = max(memory.get("rows", 2), x.shape[0])
    return memory["rows"]


def first_dtype(memory, x):
    name = str(memory.setdefault("dtype", x.dtype))
    return torch.full((), 0.1).to(getattr(torch, name.removeprefix("torch."))).to(x) * 10


def long_then_short(memory, x):
    memory["lengths"] = [*memory.get("lengths", []), x.shape[1]][-3:]
    return float(memory["lengths"] == [33, 3, 12])


STORIES = {
    "when it is asked a second time": count_calls,
    "after a call with 33 places": longest,
    "after a call with 3 places": shortest,
    "after a call with 5 rows": most_rows,
    "after calls with 33 and 3 places": long_then_short,
}


@pytest.mark.parametrize("words", STORIES)
def test_the_story_is_told(words):
    rule = STORIES[words]
    report = history(Remembers(rule), Vectors(4), fresh=lambda: Remembers(rule))
    assert report.verdict == "fails"
    assert report.failing.endswith(words)


@pytest.mark.parametrize(("dtype", "other"), [(torch.float32, "bfloat16"), (torch.bfloat16, "float32")])
def test_a_call_in_another_dtype(dtype, other):
    rule = first_dtype
    report = history(Remembers(rule), Vectors(4, dtype), fresh=lambda: Remembers(rule), lengths=(3,))
    if dtype == torch.float32:
        assert report.failing.endswith(f"after a call in {other}")
    assert "bfloat16" in report.tried or dtype == torch.bfloat16


@pytest.mark.parametrize("inputs", [Vectors(4), Vectors(4, torch.bfloat16), Tokens(9)])
def test_what_remembers_nothing_passes(inputs):
    assert history(lambda x: x.double().cumsum(1), inputs).passed


def test_without_a_fresh_one_a_state_from_before_stays_unseen():
    used = Remembers(longest)
    used(torch.zeros(1, 99, 4))
    assert history(used, Vectors(4)).passed
    report = history(used, Vectors(4), fresh=lambda: Remembers(longest))
    assert report.failing.endswith("from a fresh one to this one")


def test_a_second_call_that_raises():
    def rule(memory, x):
        if memory.setdefault(x.shape[1], 0):
            raise UnboundLocalError("factor")
        memory[x.shape[1]] = 1
        return 0.0

    report = history(Remembers(rule), Vectors(4))
    assert report.failing.startswith("it raises UnboundLocalError (factor)")
    assert report.verdict == "fails"


@pytest.mark.parametrize("makers", [{"fresh": lambda: 1 / 0}, {"others": [lambda: 1 / 0]}])
def test_a_maker_that_raises(makers):
    report = history(lambda x: x, Vectors(4), **makers)
    assert report.verdict == "not checked"
    assert "raises ZeroDivisionError" in report.failing


def test_an_input_that_is_changed():
    assert history(lambda x: x.add_(1), Vectors(4)).failing == "a call changes its own input"


def test_other_settings():
    tables = {}

    def scaled(factor, shared):
        def f(x):
            table = tables if shared else {}
            return x * table.setdefault(x.shape[1], factor)

        return f

    assert history(scaled(2.0, shared=False), Vectors(4), others=[lambda: scaled(3.0, shared=False)]).passed
    report = history(scaled(2.0, shared=True), Vectors(4), others=[lambda: scaled(3.0, shared=True)])
    assert report.failing == "an instance with other settings gives the same answer to 33 places"


def test_an_instance_that_overrides_all_others():
    settings = {}

    class Scaled:
        def __init__(self, factor):
            settings["factor"] = factor

        def __call__(self, x):
            return x * settings["factor"]

    report = history(Scaled(2.0), Vectors(4), others=[lambda: Scaled(3.0)])
    assert report.failing.endswith("after an instance with other settings was asked")
