"""Recordings in files come back exactly; whoever is killed leaves a whole one, and nothing else is taken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from headwise.core import HeadwiseError
from headwise.look import InMemory, OnDisk, load, save
from headwise.look.recordings.kept import Kept
from tests.look.corpus import recording_of, sums

ROOT = Path(__file__).parents[2]


@pytest.fixture
def saved(tmp_path):
    recording = recording_of((0, 1), rows=4, keep=InMemory())
    recording.tokens = [[f"token {place}" for place in range(9)]] * 2 + [["a"]] * 3
    save(recording, tmp_path)
    return tmp_path, recording


def same(one, other):
    for name, x in sums(other).items():
        assert torch.equal(sums(one)[name].nan_to_num(nan=-7.0), x.nan_to_num(nan=-7.0)), name
    for first, second in zip(one.layers.values(), other.layers.values(), strict=True):
        assert {**vars(first), "sums": 0} == {**vars(second), "sums": 0}
    assert (one.coverage, one.asked_rows, one.tokens) == (other.coverage, other.asked_rows, other.tokens)
    for first, second in zip(one.kept, other.kept, strict=True):
        assert (first.layer, first.document, first.scale, first.causal) == (
            second.layer, second.document, second.scale, second.causal,
        )  # fmt: skip
        assert torch.equal(first.map().dense(), second.map().dense())


def test_what_is_loaded_is_what_was_saved(saved):
    folder, recording = saved
    same(load(folder), recording)
    assert str(load(folder)) == str(recording)
    again = folder / "again"
    save(load(folder), again)  # files are copied along
    same(load(again), recording)
    save(load(again), again)  # over itself
    same(load(again), recording)
    assert len(list(again.iterdir())) == 1 + len(recording.kept)


def test_old_kept_files_go_and_others_stay(saved):
    folder, _ = saved
    (folder / "notes.txt").write_text("mine")
    other = recording_of((5,), keep=OnDisk(folder))
    save(other, folder)
    same(load(folder), other)
    assert sorted(file.suffix for file in folder.iterdir()) == [".safetensors"] * 5 + [".txt"]


def test_one_head_is_read_and_no_other(saved, monkeypatch):
    folder, recording = saved
    read = []

    def open_and_note(*args, **options):
        file = safe_open(*args, **options)

        class Noting:
            def __enter__(self):
                self.file = file.__enter__()
                return self

            def __exit__(self, *error):
                return file.__exit__(*error)

            def keys(self):
                return self.file.keys()

            def get_slice(self, name):
                part = self.file.get_slice(name)

                class Slice:
                    get_shape = staticmethod(part.get_shape)

                    def __getitem__(self, index):
                        read.append((name, part[index].shape))
                        return part[index]

                return Slice()

        return Noting()

    monkeypatch.setattr("headwise.look.recordings.kept.safe_open", open_and_note)
    window = load(folder).map(1, head=1, document=1).tile(slice(2, 5), slice(0, 9))
    assert sorted(read) == [("k", (1, 1, 9, 4)), ("q", (1, 1, 9, 4))]
    assert torch.equal(window[0, 0], recording.map(1, document=1).dense()[0, 1, 2:5])


def test_whoever_is_killed_leaves_the_old_or_the_new(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-W", "ignore", "-m", "tests.look.killed", tmp_path / "run"]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    # four kept files and the recording take four steps each and two old files go, with a kill before and one
    # after each; up to the renaming the old one is there, and then the new one
    assert len(found["steps"]) > 2 * (5 * 4 + 2)
    assert found["steps"] == sorted(found["steps"])
    assert set(found["steps"]) == {0, 1}
    assert set(found["moments"]) <= {0, 1}  # which of them is a matter of how busy the machine is


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_cut_files(saved, share):
    folder, _ = saved
    file = folder / "recording.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: int(share * len(whole))])
    refused(folder)
    file.write_bytes(whole)
    (kept,) = [one for one in load(folder).kept if one.document == 0 and one.layer == "layers.1.self_attn"]
    kept.tensors.write_bytes(kept.tensors.read_bytes()[: int(share * kept.tensors.stat().st_size)])
    recording = load(folder)
    assert not recording.map(0).dense().isnan().any()
    with pytest.raises(HeadwiseError, match="the file of kept queries and keys must be there and whole"):
        recording.map(1)
    kept.tensors.unlink()
    with pytest.raises(HeadwiseError, match="No such file"):
        recording.map(1)


def refused(folder, words="one with a whole recording"):
    with pytest.raises(HeadwiseError, match=words):
        load(folder)


def test_what_is_no_recording(tmp_path):
    refused(tmp_path)
    refused(tmp_path / "no")
    file = tmp_path / "recording.safetensors"
    file.mkdir()
    refused(tmp_path)
    file.rmdir()
    file.write_bytes(b"")
    refused(tmp_path)
    save_file({"weight": torch.zeros(2)}, file)
    refused(tmp_path, "KeyError: 'headwise'")
    for told in ("no json", "[]", "{}", "3", '{"format": 1}', "[" * 100_000):
        save_file({"weight": torch.zeros(2)}, file, metadata={"headwise": told})
        refused(tmp_path)


def changed(folder, change):
    """The recording in a folder with something else in it."""
    file = folder / "recording.safetensors"
    with safe_open(file, framework="pt") as opened:
        told = json.loads(opened.metadata()["headwise"])
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    change(told, tensors)
    save_file(tensors, file, metadata={"headwise": json.dumps(told)})


def no_file(**entry):
    return lambda told, tensors: told["kept"][0].update(entry), "no file of kept queries and keys"


CHANGES = {
    "another format": (lambda told, tensors: told.update(format=2), "format 2 is not 1"),
    "other statistics": (lambda told, tensors: told["statistics"].reverse(), "format 1 is not 1"),
    "a missing tensor": (lambda told, tensors: tensors.pop("1.total"), "'1.total'"),
    "float32 sums": (lambda told, tensors: tensors.update({"0.rows": tensors["0.rows"].float()}), "0.rows"),
    "sums of other heads": (lambda told, tensors: told["layers"][1].update(heads=3), "1.rows is not"),
    "very many heads": (lambda told, tensors: told["layers"][1].update(heads=10**9), "1.rows is not"),
    "heads in words": (lambda told, tensors: told["layers"][1].update(heads="two"), "heads is 'two'"),
    "a layer of no name": (lambda told, tensors: told["layers"][0].update(name=None), "name is None"),
    "two of a name": (lambda told, tensors: told["layers"][0].update(name="layers.1.self_attn"), "one name"),
    "a longer text": (
        lambda told, tensors: tensors.update({"0.could": torch.zeros(99).double()}), "0.received is not"
    ),
    "a coverage of nothing": (lambda told, tensors: told.update(coverage={}), "'model'"),
    "a coverage in a list": (lambda told, tensors: told["coverage"].update(seen=[]), "seen is"),
    "tokens in words": (lambda told, tensors: told.update(tokens="a b"), "tokens is 'a b'"),
    "a file elsewhere": no_file(file="../../etc/passwd"),
    "the folder as a file": no_file(file=".."),
    "a file that is not ours": no_file(file="notes.txt"),
    "a corner that is none": no_file(causal="upper right"),
    "a layer that is not there": no_file(layer="attn"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_changed_recordings(saved, change):
    folder, _ = saved
    changed(folder, CHANGES[change][0])
    refused(folder, CHANGES[change][1])
    notes = folder / "notes.txt"
    notes.write_text("mine")
    save(recording_of((0,)), folder)  # over what cannot be read
    assert (notes.read_text(), load(folder).documents) == ("mine", 2)


@pytest.mark.parametrize(
    "tensors",
    [
        {"weight": torch.zeros(2)},
        {"q": torch.zeros(1, 2, 3, 4)},
        {"q": torch.zeros(1, 2, 3, 4), "k": torch.zeros(3, 4)},
        {"q": torch.zeros(1, 2, 3, 4), "k": torch.zeros(1, 2, 3, 5)},
        {"q": torch.zeros(1, 2, 3, 4), "k": torch.zeros(1, 3, 3, 4)},
        {"q": torch.zeros(1, 2, 3, 4), "k": torch.zeros(1, 2, 3, 4), "bias": torch.zeros(1, 1, 3, 2)},
    ],
    ids=lambda tensors: "-".join(tensors),
)
def test_foreign_kept_files(tmp_path, tensors):
    save_file(tensors, tmp_path / "kept.safetensors")
    kept = Kept("attn", 0, 0.5, None, tmp_path / "kept.safetensors")
    for read in (kept.map, kept.load):
        with pytest.raises(HeadwiseError, match="the file of kept queries and keys must be there and whole"):
            read()


def test_folders_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadwiseError, match="save: the folder must be one that can be made"):
        save(recording_of((0,)), tmp_path / "file")
    with pytest.raises(HeadwiseError, match="OnDisk: "):
        OnDisk(tmp_path / "file" / "folder")
