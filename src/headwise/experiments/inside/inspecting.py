"""Reads one text with a model and says what every attention head did, while its fused kernels ran."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

from headwise.core import HeadwiseError
from headwise.experiments.inside.inspection import HeadRow, Inspection, LayerRow, Value
from headwise.experiments.inside.recorded import recorded, rows_to_read
from headwise.experiments.inside.sinks import sinks_of
from headwise.experiments.inside.subject import subject_of
from headwise.look import Recording
from headwise.look.recordings.sums import STATISTICS
from headwise.models import Model


def inspect_text(
    model: Model,
    text: str,
    *,
    rows: int | str | None = None,
    statistic: str = "entropy",
    save: str | Path | None = None,
) -> Inspection:
    """Every head's statistics over one text, from one pass of the model as it always runs, in O(n) memory.

    ``rows`` reads a random sample of so many query rows of each head, "all" every one; left out it is a
    sample of 512 for texts of more than 1,024 tokens. ``save`` keeps queries and keys in a folder for
    ``zoom``. A plain PyTorch model takes token numbers for a text: ``5,17,3``.

    Raises HeadwiseError for an unknown statistic, a text that the model cannot take, a folder that cannot be
    written, if no attention was seen, or if queries or keys are not finite.

    >>> from headwise.models import open_model
    >>> result = inspect_text(open_model(), "The cat sat on the mat.")
    >>> len(result.heads), result.sinks[0].token, result.coverage.complete
    (72, '[CLS]', True)
    """
    if statistic not in STATISTICS:
        raise HeadwiseError(
            who="inspect",
            what="the statistic",
            expected=f"one of {', '.join(STATISTICS)}",
            got=repr(statistic),
            why="Others are not recorded",
            do="Choose one of them",
        )
    subject = subject_of(model, text)
    asked = rows_to_read(rows, len(subject.tokens))
    folder = None if save is None else Path(save)
    recording = recorded(subject, asked, folder)
    heads = _heads(recording)
    return Inspection(
        model=model.name,
        text=text if len(text) <= 200 else f"{text[:199]}~",
        tokens=len(subject.tokens),
        trained_length=subject.trained_length,
        statistic=statistic,
        rows=recording.rows_line(),
        sampled=asked is not None,
        layers=[
            LayerRow(number, layer.name, layer.heads, layer.kv_heads, layer.kind)
            for number, layer in enumerate(recording.layers.values())
        ],
        heads=heads,
        sinks=sinks_of([layer.sums for layer in recording.layers.values()], subject.tokens),
        first_token_heads=sum((head.mean("first") or 0.0) > 0.5 for head in heads),
        coverage=recording.coverage,
        saved=None if folder is None else str(folder),
    )


def _heads(recording: Recording) -> list[HeadRow]:
    means = {name: recording.mean(name).tolist() for name in STATISTICS}
    errors = {name: recording.standard_error(name).tolist() for name in STATISTICS}
    found = []
    for number, layer in enumerate(recording.layers.values()):
        scores = layer.sums.largest_score.tolist()
        for head in range(layer.heads):
            statistics = {
                name: Value(means[name][number][head], errors[name][number][head])
                if isfinite(means[name][number][head])
                else None
                for name in STATISTICS
            }
            kv_head = head * layer.kv_heads // layer.heads
            score = scores[head] if isfinite(scores[head]) else None
            found.append(HeadRow(number, head, kv_head, score, statistics))
    return found
