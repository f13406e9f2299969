"""Recordings add: halves of a corpus are the whole, in any order and from any process."""

import copy
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.look import InMemory, OnDisk, load, record
from tests.look.corpus import batches, network, recording_of, sums
from tests.look.models import Split, fused

ROOT = Path(__file__).parents[2]
TEXTS = 11


def agree(one, other):
    """The same to float64 rounding.

    Every sum has terms of one sign, at most one for each text and one for the start, and each addition rounds
    by half of eps: two orders differ by no more than eps for each.
    """
    close = (TEXTS + 1) * torch.finfo(torch.float64).eps
    first, second = sums(one), sums(other)
    assert first.keys() == second.keys()
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=close, atol=0, equal_nan=True, msg=name)
    counted = [
        [
            (layer.name, layer.heads, layer.kv_heads, layer.calls, layer.documents)
            for layer in run.layers.values()
        ]
        for run in (one, other)
    ]
    assert counted[0] == counted[1]
    assert one.coverage == other.coverage
    assert one.asked_rows == other.asked_rows


@pytest.mark.parametrize("rows", [None, 6])
def test_parts_in_any_order_are_the_whole(rows):
    whole = recording_of(range(6), rows)
    assert whole.documents == TEXTS
    parts = [recording_of(numbers, rows) for numbers in ((0, 1), (2,), (3, 4, 5))]
    for first, second, third in itertools.permutations(parts):
        agree(first + second + third, whole)
        agree(first + (second + third), whole)
    agree(recording_of((4, 2, 0, 5, 3, 1), rows), whole)


def test_two_processes(tmp_path):
    code = (
        "import sys, torch; torch.set_num_threads(1)\n"
        "from headwise.look import OnDisk, save; from tests.look.corpus import recording_of\n"
        "numbers = [int(x) for x in sys.argv[1]]\n"
        "save(recording_of(numbers, rows=6, keep=OnDisk(sys.argv[3])), sys.argv[2])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    running = []
    for numbers in ("013", "245"):
        (tmp_path / f"kept {numbers}").mkdir()
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            code,
            numbers,
            tmp_path / numbers,
            tmp_path / f"kept {numbers}",
        ]
        running.append(subprocess.Popen(command, env=environment))
    assert [process.wait() for process in running] == [0, 0]
    both = load(tmp_path / "013") + load(tmp_path / "245")
    agree(both, recording_of(range(6), rows=6))
    memory = recording_of((0, 1, 3, 2, 4, 5), keep=InMemory())
    for layer, document in itertools.product(range(2), range(TEXTS)):
        one, other = (run.map(layer, document=document).dense() for run in (both, memory))
        assert torch.equal(one, other)


def test_kept_maps_are_those_of_the_run(tmp_path):
    model, corpus = network(), batches()
    shown = {}

    def note(module, args, output):
        shown.setdefault(module, []).append(
            torch.nn.functional.multi_head_attention_forward(
                *(x.transpose(0, 1) for x in args[:3]), 8, 2, module.in_proj_weight, module.in_proj_bias,
                None, None, False, 0.0, module.out_proj.weight, module.out_proj.bias, training=False,
                average_attn_weights=False,
            )[1]
        )  # fmt: skip

    with torch.no_grad(), record(model, keep=OnDisk(tmp_path)) as recording:
        model(corpus[0])
        model(corpus[5])
    handles = [layer.self_attn.register_forward_hook(note) for layer in model.layers]
    with torch.no_grad():
        model(corpus[0])
        model(corpus[5])
    for handle in handles:
        handle.remove()
    for number, layer in enumerate(model.layers):
        p = [text for batch in shown[layer.self_attn] for text in batch]
        for document, want in enumerate(p):
            found = recording.map(number, document=document)
            torch.testing.assert_close(found.dense()[0], want, atol=1e-6, rtol=1e-5)
            window = recording.map(number, head=1, document=document).tile(slice(2, 7), slice(1, 5))
            torch.testing.assert_close(window[0, 0], want[1, 2:7, 1:5], atol=1e-6, rtol=1e-5)


def test_numbers_of_texts_go_on_when_recordings_add():
    one, two = (recording_of(numbers, keep=InMemory()) for numbers in ((0,), (5, 4)))
    both = one + two
    assert both.documents == 5
    for document in range(2):
        assert torch.equal(both.map(1, document=document).q, one.map(1, document=document).q)
    for document in range(3):
        assert torch.equal(both.map(1, document=2 + document).q, two.map(1, document=document).q)
    one.tokens, two.tokens = [["a"], ["b"]], [["c"], ["d"], ["e"]]
    assert (one + two).tokens == [["a"], ["b"], ["c"], ["d"], ["e"]]
    two.tokens = []
    assert (one + two).tokens == []  # tokens of some texts would be those of others


def test_to_read_changes_nothing():
    model, x = Split(fused), torch.randn(2, 9, 8)
    with torch.no_grad(), record(model, keep=InMemory()) as recording:
        model(x)
        first = copy.deepcopy(sums(recording))
        for _ in range(2):
            read_everything(recording)
        total = recording + recording
        for name, before in first.items():
            assert torch.equal(sums(recording)[name].nan_to_num(), before.nan_to_num()), name
        model(x)
    with torch.no_grad(), record(model) as plain:
        model(x)
        model(x)
    for name, want in sums(plain).items():
        assert torch.equal(sums(recording)[name], want), name
    assert total.documents == 4  # a sum of recordings does not go on when they do
    assert (total.layers[""].calls, recording.layers[""].calls) == (2, 2)


def test_an_empty_recording_is_a_start_for_any_other():
    one = recording_of((0,))
    other = type(one)(copy.deepcopy(one.coverage))
    other.coverage.seen = {}
    both = other + one
    one.layers["layers.0.self_attn"].calls += 1
    assert both.layers["layers.0.self_attn"].calls == 1


def read_everything(recording):
    """Read all that there is, and write into what was given."""
    str(recording), recording.documents, recording.names
    for statistic in ("entropy", "first", "distance"):
        recording.mean(statistic).fill_(7.0)
        recording.standard_error(statistic).fill_(7.0)
    for layer in recording.layers.values():
        for read in (layer.sums.attention_on, layer.sums.picture, layer.sums.by_distance):
            read().fill_(7.0)
        layer.sums.mean("self").fill_(7.0)
        layer.sums.deviation("self").fill_(7.0)
    recording.map(0).entropy()
    str(recording.map(0, head=1))


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda run: run.mean("sharpness"), "the statistic must be one of entropy, confidence"),
        (lambda run: run.layer(2), "the layer must be 0 to 1, or one of their names, got 2"),
        (lambda run: run.layer("attn"), "got 'attn'"),
        (lambda run: run.map(0, head=2), "the head must be 0 to 1, got 2"),
        (lambda run: run.map(0), "queries and keys of text 0 must be kept, got 0 texts that are"),
    ],
)
def test_what_is_not_there(ask, words):
    with pytest.raises(HeadwiseError, match=words.replace("(", r"\(")):
        ask(recording_of((0,)))


def test_recordings_of_two_models_do_not_add():
    one, other = recording_of((0,)), recording_of((0,))
    layer = other.layers["layers.0.self_attn"]
    layer.heads = layer.kv_heads = 4
    with pytest.raises(HeadwiseError, match="must be 2 on 2 as in the other recording, got 4 on 4"):
        one + other
