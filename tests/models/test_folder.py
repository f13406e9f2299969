"""Opening folders, the default model's and others, without code or pickles from either."""

import json
import shutil

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.models import DEFAULT, open_model
from headwise.models.packages import MINILM


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder with a small random BERT and the real tokenizer."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    folder = tmp_path_factory.mktemp("tiny-bert")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    BertModel(BertConfig(max_position_embeddings=32, **sizes)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(MINILM.path("model", who="test")).save_pretrained(folder)
    return folder


def test_the_default_is_trained(minilm_vectors):
    a, b, c = minilm_vectors
    assert float(a @ b) == pytest.approx(0.76, abs=0.01)
    assert float(a @ c) < 0.1


@pytest.fixture(scope="module")
def minilm_vectors():
    model = open_model(attention="eager")
    texts = ("A man is eating food.", "Someone eats a meal.", "The stock market fell sharply today.")
    return [model.read(text).vector() for text in texts]


def test_a_folder_opens_and_reads(tiny):
    model = open_model(str(tiny), attention="eager")
    reading = model.read("cat bites dog")
    assert reading.tokens == ["[CLS]", "cat", "bites", "dog", "[SEP]"]
    assert reading.spans == [(0, 0), (0, 3), (4, 9), (10, 13), (0, 0)]
    assert reading.hidden.shape == (2, 5, 16)
    assert reading.weights.shape == (1, 2, 5, 5)
    assert model.name == tiny.name
    assert not model.network.training


def test_opening_says_nothing(tiny, capsys):
    open_model(str(tiny))
    assert capsys.readouterr() == ("", "")


def test_a_folder_without_some_weights_is_refused_not_filled_at_random(tiny, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(tiny, tmp_path / "holes")
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.0.attention.self.query.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(HeadwiseError, match=r"no weights for encoder.layer.0.attention.self.query.weight"):
        open_model(str(folder))


def test_a_folder_with_code_of_its_own_is_refused_and_its_code_not_run(tiny, tmp_path):
    folder = shutil.copytree(tiny, tmp_path / "code")
    marker = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(marker)!r}, 'w')\nclass Evil: pass\n")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(HeadwiseError, match="the folder must be a Hugging Face text model"):
        open_model(str(folder))
    assert not marker.exists()


def test_the_default_has_its_name():
    assert open_model(DEFAULT).name == open_model().name == DEFAULT


def test_attention_is_fused_unless_asked_otherwise(tiny):
    assert open_model(str(tiny)).network.config._attn_implementation == "sdpa"
    assert open_model(str(tiny), attention="eager").network.config._attn_implementation == "eager"


def test_a_family_without_fused_attention_opens_eager(tmp_path):
    from transformers import AutoTokenizer, MPNetConfig, MPNetModel

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    MPNetModel(MPNetConfig(**sizes)).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(MINILM.path("model", who="test")).save_pretrained(tmp_path)
    assert open_model(str(tmp_path)).network.config._attn_implementation == "eager"
