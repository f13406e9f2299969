"""Records what every attention head of a model does, while the model runs as it always does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate

import torch
from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.look.calls.call import AttentionCall, all_finite
from headwise.look.calls.coverage import Coverage
from headwise.look.calls.shared import kv_heads_of
from headwise.look.calls.watch import watch
from headwise.look.recordings.documents import Document, documents, sequence
from headwise.look.recordings.given import Given
from headwise.look.recordings.kept import Keep
from headwise.look.recordings.reading import read_call
from headwise.look.recordings.recording import Layer, Recording
from headwise.look.recordings.sums import Sums, chosen_rows
from headwise.look.recordings.texts import Reader, Texts

_VERIFIED_ROWS = 8  # of each call: enough to tell a wrong mask, scale or head from rounding


@contextmanager
def record(
    model: nn.Module,
    *,
    rows: int | None = None,
    special: Iterable[int] = (),
    keep: Keep | None = None,
    seed: int = 0,
) -> Iterator[Recording]:
    """A block in which the model runs as it always does while every attention head is read.

    Each call's statistics are computed at once, exactly, in O(n) memory, and queries and keys are dropped,
    unless ``keep`` says where to keep them. ``rows`` reads a random sample of so many query rows of each text
    instead of all; ``seed`` chooses another sample. ``special`` are the numbers of special tokens, for the
    weight on those. Padding, as the model's masks tell it, is left out of everything.

    In cross-attention no query has a place among the keys, so there are no distances and no previous tokens.
    What an attention module is called with says which it is; where that does not tell, queries and keys that
    are equally many, or a causal flag, make it self-attention.

    Raises HeadwiseError when the block ends if no attention was seen at all, or if queries or keys were not
    finite: it names the first layer and head. The model itself is never disturbed.

    >>> layer = torch.nn.TransformerEncoderLayer(8, nhead=2, batch_first=True).eval()
    >>> with torch.no_grad(), record(layer) as recording:
    ...     output = layer(torch.randn(1, 6, 8))
    >>> recording.names, recording.documents, recording.coverage.complete
    (['self_attn'], 1, True)
    """
    if rows is not None:
        check_positive(rows, who="record", what="rows")
    recording = Recording(Coverage(type(model).__name__), asked_rows=rows)
    given = Given()
    recorder = _Recorder(recording, Reader(model, given), special, keep, seed)
    with given.watching(model), watch(model, recorder.take) as recording.coverage:
        yield recording
    recorder.complain()


class _Recorder:
    """Takes the calls, one after the other."""

    def __init__(
        self, recording: Recording, reader: Reader, special: Iterable[int], keep: Keep | None, seed: int
    ) -> None:
        self.recording, self.reader, self.keep, self.seed = recording, reader, keep, seed
        self.special = torch.tensor(sorted(set(special)), dtype=torch.long)
        self.numbers: dict[str, list[int]] = {}  # of the texts in each row of the batch, by layer
        self.not_finite: str | None = None

    def take(self, call: AttentionCall) -> None:
        """Add one call to the sums of its layer."""
        if call.q.is_meta or not (call.q.numel() and call.k.shape[2]):
            return
        self.recording.coverage.verify(call, rows=_VERIFIED_ROWS)
        texts = self.reader.texts(call)
        layer = self._layer(call)
        layer.calls += 1
        numbers = self._numbers(layer, texts)
        most = self.recording.asked_rows
        sampled = most is not None and most < call.q.shape[2]
        of_each = sampled or (len(self.special) > 0 and texts.tokens is not None)
        apart = call.q.shape[0] > 1 and (of_each or len(set(texts.before)) > 1)
        for document in documents(call, texts.real, apart=apart):
            if call.is_finite or self._is_finite(document.call):
                self._read(layer, document, texts, numbers)

    def _read(self, layer: Layer, document: Document, texts: Texts, numbers: list[int]) -> None:
        call, row = document.call, document.row
        tokens = None if texts.tokens is None else texts.tokens[row]
        tokens = tokens if tokens is None or document.keys is None else tokens[document.keys]
        rows = chosen_rows(call.q.shape[2], self.recording.asked_rows, self.seed, _text(call, tokens))
        special = None
        if len(self.special) and tokens is not None:
            special = torch.isin(tokens, self.special.to(tokens.device))
        layer.sums = layer.sums + read_call(
            call, rows, special, itself=texts.itself, before=texts.before[row]
        )
        if self.keep is not None:
            for at in range(call.q.shape[0]):
                kept = self.keep.keep(layer.name, numbers[row + at], sequence(call, at))
                self.recording.kept.append(kept)

    def _layer(self, call: AttentionCall) -> Layer:
        layers = self.recording.layers
        if call.layer not in layers:
            sums = Sums.empty(call.heads)
            layers[call.layer] = Layer(call.layer, call.heads, kv_heads_of(call), call.kind, 0, 0, sums)
        return layers[call.layer]

    def _numbers(self, layer: Layer, texts: Texts) -> list[int]:
        """The number of each row's text; a row that is padding and nothing else is none."""
        real = (texts.real.queries.any(1) & texts.real.keys.any(1)).tolist()
        known = self.numbers.get(layer.name)
        if texts.continues and known is not None and len(known) == len(real):
            return known
        self.numbers[layer.name] = list(accumulate(real, initial=layer.documents))[:-1]
        layer.documents += sum(real)
        return self.numbers[layer.name]

    def _is_finite(self, call: AttentionCall) -> bool:
        if call.is_finite:
            return True
        name, x = ("keys", call.k) if all_finite(call.q) else ("queries", call.q)
        _, head, place = (~x.isfinite().all(-1)).nonzero()[0].tolist()
        number = self.recording.names.index(call.layer)
        head *= call.heads // x.shape[1]  # the first that reads these keys
        where = f"layer {number} ({call.layer or 'the model'}), head {head}, token {place}"
        self.not_finite = self.not_finite or f"NaN or infinity in the {name} of {where}"
        return False

    def complain(self) -> None:
        """Say what makes a recording useless."""
        if self.not_finite is not None:
            raise HeadwiseError(
                who="record",
                what="queries and keys",
                expected="finite",
                got=self.not_finite,
                why="That is the first place; such calls are in no sum",
                do="Look at what the layers before it compute",
            )
        if not self.recording.layers:
            raise HeadwiseError(
                who="record",
                what="the model",
                expected="run in the block and to call attention",
                got="; ".join(str(self.recording.coverage).splitlines()),
                why="Nothing was recorded",
                do="Run the model inside the block, on one thread and not as TorchScript",
            )


def _text(call: AttentionCall, tokens: Tensor | None) -> bytes:
    """What tells a text from others: its tokens, or else its first head's queries."""
    if tokens is not None:
        return bytes(tokens.long().cpu().numpy().tobytes())
    return bytes(call.q[:, 0].detach().contiguous().view(torch.uint8).cpu().numpy().tobytes())
