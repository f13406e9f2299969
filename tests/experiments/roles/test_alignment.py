"""Alignment of speech: planted heads are found, and Whisper's declared heads where it is installed."""

import os
import wave
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from headwise.core import HeadwiseError
from headwise.experiments.roles.alignment import alignment_of_speech
from headwise.models import open_model
from headwise.models.packages import WHISPER
from headwise.models.whisper import END, NO_TIMES, START, SpeechModel

FRAMES = 60  # half a second each
WORDS = [END, START, NO_TIMES, *(f"w{number}" for number in range(12))]


class Planted(nn.Module):
    """Heads that cross from tokens to frames: forwards, even, backwards; and self-attention of both sides.

    Token i of the text looks at frame 3 i, or 33 - 3 i; the start tokens at the last frame.
    """

    sharpness = 200.0

    def forward(self, input_features, decoder_input_ids, use_cache):
        tokens = decoder_input_ids.shape[1]
        functional.scaled_dot_product_attention(*(torch.zeros(1, 2, tokens, 4) for _ in range(3)))
        functional.scaled_dot_product_attention(*(torch.zeros(1, 2, FRAMES, 4) for _ in range(3)))
        looks = torch.tensor([[59, 59, *(3 * i for i in range(tokens - 2))]] * 3)
        looks[2, 2:] = 33 - looks[2, 2:]
        q = self.sharpness * functional.one_hot(looks, FRAMES).float()[None]
        q[:, 1] = 0.0
        k = torch.eye(FRAMES).expand(1, 3, -1, -1)
        functional.scaled_dot_product_attention(q, k, k, scale=1.0)


class Ear:
    def __call__(self, sound, sampling_rate, return_tensors):
        return {"input_features": torch.zeros(1, 1)}


def model_of(network, ear=None):
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    return SpeechModel("tiny", network.eval(), tokenizer, ear or Ear(), ((0, 1),))


def test_planted_heads_by_hand():
    """A sound of 20 s fills 40 of 60 frames; 12 tokens half a second times 3 apart."""
    found = alignment_of_speech(model_of(Planted()), torch.zeros(20 * 16_000), " ".join(WORDS[3:]), draws=200)
    assert found.tokens == WORDS[3:]
    assert (found.seconds, found.frames, found.frames_of_sound) == (20.0, 60, 40)
    assert found.even_beyond == pytest.approx(1 / 3, abs=1e-15)
    forwards, even, backwards = found.heads
    assert [head.name for head in found.heads] == ["0.0", "0.1", "0.2"]
    assert [head.declared for head in found.heads] == [False, True, False]
    assert forwards.monotonicity == pytest.approx(1.0, abs=1e-12)
    assert even.monotonicity == 0.0
    assert backwards.monotonicity == pytest.approx(-1.0, abs=1e-12)
    # exp(-200) is 0 in float32, and centres are rounded to under 1e-4 frames
    assert forwards.centre == pytest.approx([1.5 * i for i in range(12)], abs=1e-4)
    assert backwards.centre == pytest.approx([16.5 - 1.5 * i for i in range(12)], abs=1e-4)
    assert even.centre == pytest.approx([19.5 / 2] * 12, abs=1e-4)
    assert [head.beyond for head in found.heads] == pytest.approx([0.0, 1 / 3, 0.0], abs=1e-6)
    # 1.5 s a token, where 20 s over 11 steps were even
    assert [head.pace for head in found.heads] == pytest.approx(
        [1.5 * 11 / 20, 0.0, -1.5 * 11 / 20], abs=1e-4
    )
    assert forwards.p == pytest.approx(1 / 201, abs=1e-7)  # float32
    assert min(even.p, backwards.p) > 0.9
    assert found.following() == ["0.0"]


def test_a_head_that_looks_beyond_the_sound_only_has_no_centre():
    found = alignment_of_speech(model_of(Planted()), torch.zeros(16_000), "w0 w1 w2 w3", draws=10)
    assert found.frames_of_sound == 2
    assert found.heads[0].centre[1:] == [None] * 3  # frames 3, 6, 9
    assert found.heads[0].beyond == pytest.approx(0.75, abs=1e-6)


def test_words_are_heard_where_none_are_given():
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    sizes = {
        "vocab_size": len(WORDS),
        "d_model": 8,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "num_mel_bins": 80,
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "pad_token_id": 0}
    widths = {"encoder_ffn_dim": 12, "decoder_ffn_dim": 16, "bos_token_id": 0, "eos_token_id": 0}
    network = WhisperForConditionalGeneration(
        WhisperConfig(**sizes, **heads, **widths, decoder_start_token_id=1, max_target_positions=8)
    )
    with torch.no_grad():
        network.proj_out.weight[0] = 0.0  # the end is never likeliest: some other score is above 0
    model = model_of(network, WhisperFeatureExtractor(feature_size=80))
    sound = torch.sin(torch.arange(16_000) / 20)
    found = alignment_of_speech(model, sound, draws=10)
    inputs = model.encode(sound, found.text)
    with torch.no_grad():
        likeliest = network(**inputs).logits[0, 1:-1].argmax(-1)
    assert inputs["decoder_input_ids"][0, 2:].tolist() == likeliest.tolist()
    assert len(found.tokens) == 6  # 8 positions, two of them for the start
    assert [head.name for head in found.heads] == ["0.0", "0.1", "1.0", "1.1"]


@pytest.mark.parametrize(
    ("network", "text", "message"),
    [
        (Planted(), "w0 w1", "tiny: the text must be at least 3 tokens, got 2"),
        (nn.Module(), "w0 w1 w2", "tiny: the model must be one with cross-attention, got none seen"),
    ],
)
def test_what_cannot_be_aligned_is_refused(network, text, message):
    if not isinstance(network, Planted):
        network.forward = lambda **inputs: None
    with pytest.raises(HeadwiseError, match=message):
        alignment_of_speech(model_of(network), torch.zeros(16_000), text)


def test_a_centre_that_only_drifts_does_not_follow():
    """As planted, but the weight is spread over all frames, and moves from them by a little."""
    planted = Planted()
    planted.sharpness = 0.5
    forwards = alignment_of_speech(
        model_of(planted), torch.zeros(480_000), " ".join(WORDS[3:]), draws=200
    ).heads[0]
    assert forwards.monotonicity == pytest.approx(1.0, abs=1e-12)
    assert forwards.p < 0.05
    assert 0 < forwards.pace < 0.25
    assert not forwards.follows


def whisper_on_the_recording():
    """The declared heads move on in order and at pace; 24 tokens tell not all of them from a walk."""
    with wave.open(str(Path(os.environ["HEADWISE_DATA"], "jfk-16khz.wav"))) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    found = alignment_of_speech(
        open_model("whisper"), torch.from_numpy(samples / np.float32(32768)), draws=500
    )
    declared = [head for head in found.heads if head.declared]
    assert found.frames_of_sound == 550
    assert len(found.tokens) == 24
    assert {head.name for head in declared} == {"1.0", "2.0", "2.5", "3.0", "3.1", "3.2", "3.3", "3.4"}
    assert all(head.monotonicity > 0.9 and 0.7 < head.pace < 0.9 for head in declared)
    assert [head.name for head in declared if head.p < 0.05] == ["2.5", "3.3"]
    return len(found.following()) == 14


def test_whispers_declared_heads_follow_the_sound_where_it_is_installed():
    at_hand = find_spec(WHISPER.module) is not None and "HEADWISE_DATA" in os.environ
    assert not at_hand or whisper_on_the_recording()
