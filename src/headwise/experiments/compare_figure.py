"""The picture of a comparison: two panels on words without a model, three on the trained model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from headwise.core.figures import BLUE, GREY, ORANGE, RISING, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from headwise.experiments.comparison import Comparison
    from headwise.experiments.model_comparison import ModelComparison
    from headwise.experiments.word_attention import WordAttention

_WORDS_SHOWN = 10


def draw(result: Comparison) -> Figure:
    """The comparison as a figure of two or five panels."""
    model = result.in_model
    with new_figure(10, 3.4 if model is None else 8.6, who="plot") as figure:
        sentences = result.without_model
        figure.suptitle(
            f"A: {_cut(sentences.sentence_a)}\nB: {_cut(sentences.sentence_b)}", ha="left", x=0.01
        )
        grid = figure.add_gridspec(1 if model is None else 3, 2)
        left = figure.add_subplot(grid[0, 0])
        _words(left, sentences, positions=False)
        _words(figure.add_subplot(grid[0, 1], sharey=left), sentences, positions=True)
        if model is not None:
            _distances(figure.add_subplot(grid[1, 0]), model)
            _movement(figure.add_subplot(grid[1, 1]), model)
            _heads(figure.add_subplot(grid[2, :]), model)
    return figure


def _words(axes: Axes, result: WordAttention, *, positions: bool) -> None:
    a, b = (result.with_a, result.with_b) if positions else (result.without_a, result.without_b)
    row_a, row_b = a.get(result.focus, {}), b.get(result.focus, {})
    names = list(dict.fromkeys([*row_a, *row_b]))[:_WORDS_SHOWN]
    place = np.arange(len(names))
    for shift, row, colour, label in ((-0.2, row_a, BLUE, "in A"), (0.2, row_b, ORANGE, "in B")):
        bars = axes.bar(
            place + shift, [row.get(name, 0.0) for name in names], 0.38, color=colour, label=label
        )
        axes.bar_label(bars, fmt="%.2f", fontsize=7)
    axes.set_xticks(place, names, rotation=0 if len(names) < 6 else 30)
    axes.set_ylabel(f'attention from "{result.focus}"')
    axes.set_title(f"Random word vectors, {result.position if positions else 'no'} positions")
    axes.legend()


def _distances(axes: Axes, model: ModelComparison) -> None:
    rows = [
        ("unrelated", model.unrelated.distance, GREY),
        ("a harmless edit", model.harmless.distance, GREY),
        ("B, reordered", model.with_positions.reordered, BLUE),
    ]
    if model.positions_off is not None:
        rows.append(("B, positions off", model.positions_off.reordered, ORANGE))
    lowest = 1e-7
    for place, (_, distance, colour) in enumerate(rows):
        shown = max(distance, lowest)
        axes.plot([lowest, shown], [place, place], color=colour, linewidth=1)
        axes.plot(shown, place, marker="o" if distance > lowest else "<", color=colour, clip_on=False)
        label = f"{distance:.3f}" if distance > lowest else f"{distance:.0e}, off the scale"
        axes.annotate(label, (shown, place), (7, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.set_xscale("log")
    axes.set_xlim(lowest, 30)
    axes.set_xlabel("cosine distance from A (log scale)")
    axes.set_title(f"How far each sentence is from A, {model.model}")


def _movement(axes: Axes, model: ModelComparison) -> None:
    words = model.with_positions.words[:_WORDS_SHOWN]
    image = axes.imshow([word.by_state for word in words], cmap=RISING, aspect="auto", vmin=0)
    axes.set_yticks(range(len(words)), [word.word for word in words])
    _numbered(axes, len(words[0].by_state), ["input", *map(str, range(model.layers))])
    axes.set_xlabel("after layer")
    axes.set_title("How far each word's vector moved from A to B")
    axes.figure.colorbar(image, ax=axes, label="relative to its size")


def _heads(axes: Axes, model: ModelComparison) -> None:
    grid = np.zeros((model.layers, model.heads))
    for head in model.with_positions.heads:
        grid[head.layer, head.head] = head.change
    image = axes.imshow(grid, cmap=RISING, aspect="auto", vmin=0)
    _numbered(axes, model.heads, [str(head) for head in range(model.heads)])
    axes.set_yticks(range(0, model.layers, max(1, model.layers // 12)))
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.set_title("How much of its attention each head moved to other words from A to B")
    axes.figure.colorbar(image, ax=axes, label="share of attention")


def _numbered(axes: Axes, count: int, labels: list[str]) -> None:
    step = max(1, count // 16)
    axes.set_xticks(range(0, count, step), labels[::step])


def _cut(text: str) -> str:
    text = text.replace("$", r"\$")  # matplotlib reads a dollar as the start of a formula
    return text if len(text) <= 110 else text[:109] + "\u2026"
