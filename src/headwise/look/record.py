"""Records what every attention head of a model does, while the model runs as it always does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.look.call import AttentionCall
from headwise.look.coverage import Coverage
from headwise.look.documents import Document, documents, sequence
from headwise.look.given import Given
from headwise.look.kept import Keep
from headwise.look.padding import Padding
from headwise.look.reading import read_call
from headwise.look.recording import Layer, Recording
from headwise.look.sums import Sums, chosen_rows
from headwise.look.watch import watch

_VERIFIED_ROWS = 16  # of each call: enough to tell a wrong mask, scale or head from rounding


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

    Where queries and keys are not as many and nothing is causal, the call counts as cross-attention, in which
    no query has a place among the keys: there are no distances and no previous tokens.

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
    recorder = _Recorder(recording, Given(special), keep, seed)
    with recorder.given.watching(model), watch(model, recorder.take) as recording.coverage:
        yield recording
    recorder.complain()


class _Recorder:
    """Takes the calls, one after the other."""

    def __init__(self, recording: Recording, given: Given, keep: Keep | None, seed: int) -> None:
        self.recording, self.given, self.keep, self.seed = recording, given, keep, seed
        self.padding = Padding()
        self.lengths: dict[str, int] = {}
        self.not_finite: str | None = None

    def take(self, call: AttentionCall) -> None:
        """Add one call to the sums of its layer."""
        if call.q.is_meta or not (call.q.numel() and call.k.shape[2]):
            return
        self.recording.coverage.verify(call, rows=_VERIFIED_ROWS)
        batch, (queries, keys) = call.q.shape[0], (call.q.shape[2], call.k.shape[2])
        real = self.padding.real(call, self.given.attention_mask)
        length = int(real.keys.any(0).nonzero().max()) + 1 if bool(real.keys.any()) else keys
        continues = length == self.lengths.get(call.layer, -1) + queries
        self.lengths[call.layer] = length
        layer = self._layer(call)
        layer.calls += 1
        layer.documents += 0 if continues else batch
        special = self.given.special_keys(batch, keys)
        for document in documents(call, real, apart=special is not None and batch > 1):
            number = layer.documents - batch + document.row
            self._read(layer, document, number, special, itself=continues or queries == length)

    def _read(
        self, layer: Layer, document: Document, number: int, special: Tensor | None, *, itself: bool
    ) -> None:
        call = document.call
        if not self._is_finite(call):
            return
        if special is not None:
            special = special[document.row]
            special = special if document.keys is None else special[document.keys]
        rows = chosen_rows(call.q.shape[2], self.recording.asked_rows, self.seed)
        layer.sums = layer.sums + read_call(call, rows, special, itself=itself or call.causal is not None)
        if self.keep is not None:
            for row in range(call.q.shape[0]):
                self.recording.kept.append(self.keep.keep(layer.name, number + row, sequence(call, row)))

    def _layer(self, call: AttentionCall) -> Layer:
        layers = self.recording.layers
        if call.layer not in layers:
            sums = Sums.empty(call.heads)
            layers[call.layer] = Layer(call.layer, call.heads, call.kv_heads, call.kind, 0, 0, sums)
        return layers[call.layer]

    def _is_finite(self, call: AttentionCall) -> bool:
        for name, x in (("queries", call.q), ("keys", call.k)):
            if not bool(x.isfinite().all()):
                _, head, place = (~x.isfinite().all(-1)).nonzero()[0].tolist()
                number = self.recording.names.index(call.layer)
                where = f"layer {number} ({call.layer or 'the model'}), head {head}, token {place}"
                self.not_finite = self.not_finite or f"NaN or infinity in the {name} of {where}"
                return False
        return True

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
                got=str(self.recording.coverage),
                why="Nothing was recorded",
                do="Run the model inside the block, on one thread and not as TorchScript",
            )
