"""Weights from safetensors files: whole, in shards, with the configuration beside them; nothing else."""

import json
import re

import pytest
import torch
from safetensors.torch import save_file

from headwise.core import HeadwiseError
from headwise.layers.conversion import from_hugging_face, read_safetensors
from tests.layers.conversion.random_models import ALL, theirs


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama, tied", "qwen3", "t5", "t5, gated"])
def test_what_transformers_saves_is_read(family, tmp_path):
    network = theirs(family)
    network.save_pretrained(tmp_path)
    ours = from_hugging_face(tmp_path)
    other = from_hugging_face(network.state_dict(), network.config)
    assert str(ours) == str(other)
    for name, weight in other.state_dict().items():
        assert torch.equal(ours.state_dict()[name], weight)


def test_shards_and_a_file_alone(tmp_path):
    network = theirs("bert")
    network.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    whole = from_hugging_face(tmp_path / "shards").state_dict()
    network.save_pretrained(tmp_path)
    alone = from_hugging_face(str(tmp_path / "model.safetensors"), network.config).state_dict()
    assert all(torch.equal(alone[name], weight) for name, weight in whole.items())


def test_a_lost_shard_is_refused(tmp_path):
    theirs("bert").save_pretrained(tmp_path, max_shard_size="8KB")
    sorted(tmp_path.glob("*.safetensors"))[1].unlink()
    with pytest.raises(HeadwiseError, match="missing"):
        from_hugging_face(tmp_path)


def test_other_files_are_refused(tmp_path):
    torch.save({"weight": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    for path in (tmp_path, tmp_path / "pytorch_model.bin", tmp_path / "nothing.safetensors"):
        with pytest.raises(HeadwiseError, match=r"the path must be a \.safetensors file"):
            read_safetensors(path)
    (tmp_path / "model.safetensors").write_bytes(b"\x00" * 20)
    with pytest.raises(HeadwiseError, match="the file must be a whole safetensors file"):
        read_safetensors(tmp_path)
    save_file({"weight": torch.ones(2)}, tmp_path / "model.safetensors")
    assert read_safetensors(tmp_path)["weight"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_a_configuration_that_is_none_is_refused(text, tmp_path):
    save_file({"weight": torch.ones(2)}, tmp_path / "model.safetensors")
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(HeadwiseError, match="the configuration of a model in JSON"):
        from_hugging_face(tmp_path)


@pytest.mark.parametrize("family", ALL)
def test_each_missing_weight_is_named(family):
    network = theirs(family)
    given = network.state_dict()
    one_of_each = {re.sub(r"\d+", "", name): name for name in given}
    for name in one_of_each.values():
        copies = [other for other in given if given[other].data_ptr() == given[name].data_ptr()]
        if name.startswith("pooler") or len(copies) > 1:
            continue
        left = {other: weight for other, weight in given.items() if other != name}
        with pytest.raises(HeadwiseError, match="missing") as caught:
            from_hugging_face(left, network.config)
        inner = name.removeprefix("model.").removeprefix("transformer.").replace("c_attn", "q")
        assert inner in str(caught.value)


@pytest.mark.parametrize("family", ALL)
def test_a_weight_without_a_place_is_named(family):
    network = theirs(family)
    extra = {**network.state_dict(), "adapter.weight": torch.ones(2)}
    with pytest.raises(HeadwiseError, match=r"1 unknown \(adapter.weight\)"):
        from_hugging_face(extra, network.config)


@pytest.mark.parametrize("family", ALL)
def test_a_layer_too_many_and_one_too_few(family):
    network = theirs(family)
    config = network.config.to_dict()
    depth = next(name for name in ("num_hidden_layers", "n_layer", "num_layers") if name in config)
    config.pop("layer_types", None)
    for layers, word in ((1, "unknown"), (3, "missing")):
        with pytest.raises(HeadwiseError, match=word):
            from_hugging_face(network.state_dict(), json.loads(json.dumps({**config, depth: layers})))


def test_tied_weights_that_differ_are_refused():
    network = theirs("llama, tied")
    weights = {**network.state_dict(), "lm_head.weight": torch.ones(50, 16)}
    with pytest.raises(HeadwiseError, match=r"lm_head\.weight must be equal to embed_tokens\.weight"):
        from_hugging_face(weights, network.config)
    del weights["model.embed_tokens.weight"]  # a file may hold either of the two names
    tied = from_hugging_face(weights, network.config)
    assert torch.equal(tied.embedding.token.weight, torch.ones(50, 16))


def test_numbers_of_another_shape_or_kind_are_refused():
    network = theirs("bert")
    name = "encoder.layer.0.attention.self.query.weight"
    for weight, words in (
        (torch.ones(8, 16), "float32 of shape"),
        (torch.ones(16, 16).char(), "int8 of shape"),
    ):
        with pytest.raises(HeadwiseError, match=f"{name} must be floating point of shape .*, got {words}"):
            from_hugging_face({**network.state_dict(), name: weight}, network.config)
