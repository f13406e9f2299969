"""The example trains on a text, its loss falls on text it has not seen, and it writes."""

import math
import re
import runpy
from pathlib import Path

import torch

EXAMPLE = Path(__file__).parents[3] / "examples" / "train_small.py"
WORDS = ("the river", "a fisher", "an old boat", "the mill", "a heron", "the moon")
DOES = ("follows", "hears", "carries", "leaves", "wakes")


def text(lines):
    """Sentences drawn from a few words: a letter is easy to guess from those before it, and hard without."""
    drawn = torch.Generator().manual_seed(0)

    def one(words):
        return words[int(torch.randint(len(words), (), generator=drawn))]

    return "".join(f"{one(WORDS)} {one(DOES)} {one(WORDS)}.\n" for _ in range(lines))


def surprise_without_order(written):
    """The mean surprise of whoever knows how often each letter comes and nothing else, in nats."""
    shares = [written.count(letter) / len(written) for letter in set(written)]
    return -sum(share * math.log(share) for share in shares)


def test_the_loss_falls_below_what_counting_letters_can_reach(tmp_path, capsys):
    written = text(200)
    path = tmp_path / "text.txt"
    path.write_text(written)
    main = runpy.run_path(str(EXAMPLE))["main"]
    main.__globals__.update(MODEL_DIM=64, DEPTH=2, LENGTH=32)  # as in the example, but for a few seconds
    main(str(path), 50)
    shown = capsys.readouterr().out
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", shown)]
    assert len(losses) == 11
    assert abs(losses[0] - math.log(256)) < 0.5  # a model that knows nothing
    assert losses[-1] < surprise_without_order(written)
    sample = shown.split("trained on\n")[-1]
    assert len(sample.strip("\n")) > 150
    assert set(sample) <= set(written)
