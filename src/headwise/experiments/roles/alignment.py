"""Alignment of speech: which decoder heads follow the sound as the words go on."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import torch
from torch import Tensor

from headwise.core import HeadwiseError
from headwise.look import AttentionCall, watch
from headwise.look.roles.best_of_heads import DRAWS
from headwise.look.roles.monotonicity import Monotonicity, centres, monotonicity
from headwise.models.whisper import END, LONGEST, RATE, SpeechModel

_IN_ORDER, _SLOWEST = 0.9, 0.25
_STARTS = 2  # tokens before the text: <|startoftranscript|> and <|notimestamps|>


@dataclass(frozen=True)
class SpeechHead:
    """One decoder head's cross-attention over one sound.

    ``monotonicity`` is the rank correlation of its centre with the order of the tokens, ``rising`` the share
    of steps that do not go back; both with standard error and p. ``pace`` is how fast the centre moves: 1 for
    a head that goes through the whole sound evenly, token by token, 0 for one that stays. ``centre`` is where
    each token looks on average, in seconds, within the sound; ``beyond`` the share of its attention on frames
    after the end of the sound. ``declared`` says that the model's files call it an alignment head.
    """

    layer: int
    head: int
    monotonicity: float
    error: float | None
    p: float
    rising: float
    rising_error: float | None
    rising_p: float
    pace: float
    centre: list[float | None]
    beyond: float
    declared: bool

    @property
    def name(self) -> str:
        """``layer.head``, both from 0."""
        return f"{self.layer}.{self.head}"

    @property
    def follows(self) -> bool:
        """Whether the head follows the sound: a correlation of 0.9, and at a quarter of an even pace.

        Order alone is not enough: a centre that drifts, always the same way but hardly at all, is in order.
        It describes this sound; ``p`` says whether so few tokens tell the head from one that wanders about.
        """
        return self.monotonicity >= _IN_ORDER and self.pace >= _SLOWEST


@dataclass(frozen=True)
class SpeechAlignment:
    """Every decoder head's cross-attention over one sound and its words.

    The encoder hears ``frames`` frames, of which the sound fills ``frames_of_sound``: the rest is silence
    that was put after it. ``even_beyond`` is the share that even attention would give to that silence.
    """

    model: str
    text: str
    tokens: list[str]
    seconds: float
    frames: int
    frames_of_sound: int
    even_beyond: float
    heads: list[SpeechHead]

    def following(self, above: float = 0.0) -> list[str]:
        """The heads that follow the sound, with a monotonicity above a bar, as ``layer.head``."""
        return [head.name for head in self.heads if head.follows and head.monotonicity > above]


@torch.no_grad()
def alignment_of_speech(
    model: SpeechModel, sound: Tensor, text: str | None = None, *, draws: int = DRAWS, seed: int = 0
) -> SpeechAlignment:
    """Which decoder heads move through the sound as the text goes on, from one pass over all of its tokens.

    Without a text, the model first writes down what it hears, always taking the likeliest token. Queries are
    the tokens of the text, in order, without the start tokens; keys the frames that the sound fills. The null
    lets each step from a token to the next go either way: p is against the best of all decoder heads, and
    under six tokens are too few for 5 %.

    Raises HeadwiseError if the sound does not suit the model, if there are fewer than three tokens, or if no
    cross-attention was seen.
    """
    inputs = model.encode(sound, text or "")
    if text is None:
        inputs["decoder_input_ids"] = _heard(model, inputs)
    ids = inputs["decoder_input_ids"][0, _STARTS:]
    if len(ids) < 3:
        raise _refused(
            model.name, "the text", "at least 3 tokens", f"{len(ids)}", "Two have no order to follow"
        )
    found: list[Tensor] = []
    beyond: list[Tensor] = []
    sizes: list[tuple[int, int]] = []

    def on_call(call: AttentionCall) -> None:
        queries, keys = call.q.shape[2], call.k.shape[2]
        if queries != _STARTS + len(ids) or keys == queries:
            return  # self-attention, of the encoder or of the decoder
        filled = torch.arange(keys, device=call.q.device) < _filled(keys, len(sound))
        attention = call.map()
        found.append(centres(attention, keys=filled[None])[0, :, _STARTS:])
        beyond.append(attention.mass(~filled[None])[0, :, _STARTS:, 0].mean(-1))
        sizes.append((call.heads, keys))

    with watch(model.network, on_call):
        model.network(**inputs, use_cache=False)
    if not found:
        raise _refused(
            model.name, "the model", "one with cross-attention", "none seen", "It aligns text and sound"
        )
    frames = sizes[0][1]
    heads = [(layer, head) for layer, (number, _) in enumerate(sizes) for head in range(number)]
    centre = torch.cat(found).cpu()
    figures = monotonicity(centre, draws=draws, seed=seed)
    seconds = centre * LONGEST / frames
    paces = [_pace(row, len(sound) / RATE) for row in seconds]
    rows = zip(heads, paces, seconds, torch.cat(beyond).tolist(), strict=True)
    return SpeechAlignment(
        model=model.name,
        text=str(model.tokenizer.decode(ids.tolist())) if text is None else text,
        tokens=[str(model.tokenizer.decode([token])) for token in ids.tolist()],
        seconds=len(sound) / RATE,
        frames=frames,
        frames_of_sound=_filled(frames, len(sound)),
        even_beyond=1 - _filled(frames, len(sound)) / frames,
        heads=[_head(model, place, figures, number, *row) for number, (place, *row) in enumerate(rows)],
    )


def _filled(frames: int, samples: int) -> int:
    """How many frames hold some of the sound: all of them together hold the longest one."""
    return max(1, ceil(samples * frames / (LONGEST * RATE)))


def _pace(centre: Tensor, duration: float) -> float:
    """The slope of the line through the centres by least squares, over that of an even reading."""
    seen = (~centre.isnan()).nonzero().flatten()
    even = seen.to(centre) * duration / (len(centre) - 1)
    steps, away = even - even.mean(), centre[seen] - centre[seen].mean()
    return float((steps * away).sum() / steps.square().sum()) if len(seen) > 1 else 0.0


def _head(
    model: SpeechModel,
    place: tuple[int, int],
    of: Monotonicity,
    number: int,
    pace: float,
    centre: Tensor,
    beyond: float,
) -> SpeechHead:
    columns = (
        of.correlation,
        of.correlation_error,
        of.correlation_p,
        of.rising,
        of.rising_error,
        of.rising_p,
    )
    r, r_error, r_p, rising, rising_error, rising_p = (float(column[number]) for column in columns)
    return SpeechHead(
        layer=place[0],
        head=place[1],
        monotonicity=r,
        error=_number(r_error),
        p=r_p,
        rising=rising,
        rising_error=_number(rising_error),
        rising_p=rising_p,
        pace=pace,
        centre=[_number(second) for second in centre.tolist()],
        beyond=beyond,
        declared=place in model.alignment_heads,
    )


def _number(x: float) -> float | None:
    return None if x != x else x


def _heard(model: SpeechModel, inputs: dict[str, Tensor]) -> Tensor:
    """The start tokens and the likeliest next token, again and again, up to the end or the model's length."""
    network: Any = model.network
    ids, end = inputs["decoder_input_ids"], model.tokenizer.convert_tokens_to_ids(END)
    heard = network.model.encoder(inputs["input_features"])[0]
    while ids.shape[1] < network.config.max_target_positions:
        states = network.model.decoder(input_ids=ids, encoder_hidden_states=heard, use_cache=False)[0]
        likeliest = network.proj_out(states[:, -1:]).argmax(-1)
        if int(likeliest) == end:
            break
        ids = torch.cat([ids, likeliest], dim=1)
    return ids


def _refused(who: str, what: str, expected: str, got: str, why: str) -> HeadwiseError:
    do = "Give speech with its words to a model such as whisper"
    return HeadwiseError(who=who, what=what, expected=expected, got=got, why=why, do=do)
