"""DINOv2's file format and names: a small random DINOv2, written byte by byte, comes back as it was."""

import numpy as np
import pytest
import torch

from headwise.core import HeadwiseError
from headwise.models import open_model
from headwise.models.onnx_file import read_onnx
from headwise.models.packages import Package

OLD_NAMES = {
    "attention.q_proj": "attention.attention.query",
    "attention.k_proj": "attention.attention.key",
    "attention.v_proj": "attention.attention.value",
    "attention.o_proj": "attention.output.dense",
}


def varint(number):
    low = bytes([number & 127 | (128 if number > 127 else 0)])
    return low if number < 128 else low + varint(number >> 7)


def field(number, content):
    """Text and bytes with their length, whole numbers as they are."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def weight(name, array):
    array = np.ascontiguousarray(array)
    kind = {"float32": 1, "int64": 7}[array.dtype.name]
    axes = b"".join(field(1, size) for size in array.shape)
    return field(5, axes + field(2, kind) + field(8, name) + field(9, array.tobytes()))


def product(name, right):
    return field(
        1, field(1, "left") + field(1, right) + field(2, "out") + field(3, name) + field(4, "MatMul")
    )


def model(*parts):
    return field(1, 8) + field(2, "exporter") + field(7, b"".join(parts))


def exported(network):
    """Matrices of linear layers lose their names and are turned; positions are two constants."""
    parts = [weight("some::Shape", np.array([1, -1]))]
    for name, tensor in network.state_dict().items():
        for new, old in OLD_NAMES.items():
            name = name.replace(new, old)
        if name == "embeddings.position_embeddings":
            parts += [weight("onnx::Concat_7", tensor[:, :1]), weight("onnx::Reshape_8", tensor[:, 1:])]
        elif tensor.dim() == 2 and "mask_token" not in name:
            path = "/backbone/" + name.removesuffix(".weight").replace(".", "/").replace("layer/", "layer.")
            parts += [
                product(f"{path}/MatMul", f"onnx::{len(parts)}"),
                weight(f"onnx::{len(parts)}", tensor.T),
            ]
        elif "mask_token" not in name:
            parts.append(weight(f"backbone.{name}", tensor))
    return model(*parts)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A random DINOv2 of two heads, and its package as a file."""
    from transformers import Dinov2Config, Dinov2Model

    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 2, "mlp_ratio": 2}
    network = Dinov2Model(Dinov2Config(**sizes, image_size=42, patch_size=14)).eval()
    with torch.no_grad():
        for parameter in network.parameters():  # norms and biases start as ones and zeros, which hide a swap
            parameter.add_(torch.randn_like(parameter) / 10)
    file = tmp_path / "tiny.onnx"
    file.write_bytes(exported(network))
    monkeypatch.setattr(Package, "path", lambda self, *parts, who: file)
    return network, file


def test_every_weight_finds_its_place(tiny):
    network, _ = tiny
    opened = open_model("dinov2")
    inputs = opened.encode(torch.rand(3, 42, 56))
    assert inputs["pixel_values"].shape == (1, 3, 42, 56)
    with torch.no_grad():
        assert torch.equal(opened.network(**inputs).last_hidden_state, network(**inputs).last_hidden_state)


def test_colours_are_centred_as_in_training(tiny):
    grey = open_model("dinov2").encode(torch.full((3, 14, 14), 0.5))["pixel_values"]
    expected = [(0.5 - 0.485) / 0.229, (0.5 - 0.456) / 0.224, (0.5 - 0.406) / 0.225]
    assert grey[0, :, 3, 3].tolist() == pytest.approx(expected, abs=1e-6)


def test_a_cut_file_or_one_without_a_weight_is_refused(tiny):
    _, file = tiny
    whole = file.read_bytes()
    for length in (0, 1, 30, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(HeadwiseError):
            open_model("dinov2")
    file.write_bytes(
        whole.replace(b"backbone.encoder.layer.1.norm1.bias", b"backbone.encoder.layer.1.norm1.BIAS")
    )
    with pytest.raises(HeadwiseError, match="1 missing, 1 unknown"):
        open_model("dinov2")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x80" * 11, "A number in it does not end"),
        (b"\x03", "a field of the unknown kind 3"),
        (field(7, 5), "A part of it is no message"),
        (field(7, b"\xff"), "It ends too early"),
        (
            model(field(5, field(1, 3) + field(2, 1) + field(8, "w") + field(9, bytes(8)))),
            "Weight w has shape",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path, content, why):
    (tmp_path / "bad.onnx").write_bytes(content)
    with pytest.raises(HeadwiseError, match=why):
        read_onnx(tmp_path / "bad.onnx")
