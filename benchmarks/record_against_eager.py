"""What look.record says of trained models beside what their own eager attention says.

    python benchmarks/record_against_eager.py [MODEL ...] [--sound jfk-16khz.wav] [--json]

MODEL is all-MiniLM-L6-v2, smollm2, rxnmapper, mpnet, whisper or dinov2; without any, all that are installed.
Each is run with its fused kernels, recorded and not, and once more as eager with output_attentions=True. The
statistics of the eager probabilities are computed here, in float64 from the whole matrices. The largest
differences are printed, as they are for weights and relative to the largest value for the rest.
"""

from __future__ import annotations

import argparse
import json
import wave
from pathlib import Path

import numpy as np
import torch

from headwise.core import HeadwiseError
from headwise.look import record
from headwise.models import open_model

TEXT = (
    "The tides are the regular rise and fall of the sea. They are caused mainly by the gravity of the Moon, "
    "which pulls on the water of the side of the Earth that faces it more strongly than on the Earth."
)
REACTION = "CC(=O)Cl.OCC>>CC(=O)OCC"
TRANSCRIPT = " And so my fellow Americans ask not what your country can do for you"
MODELS = ("all-MiniLM-L6-v2", "smollm2", "rxnmapper", "mpnet", "whisper", "dinov2")
WEIGHTS = ("confidence", "self", "previous", "next", "first")
RELATIVE = ("entropy", "distance", "spread")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="by short name; all that are installed")
    parser.add_argument("--sound", type=Path, help="16,000 samples a second for Whisper; noise if not given")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    arguments = parser.parse_args()
    found = {}
    for name in arguments.models or MODELS:
        try:
            found[name] = compare(name, arguments.sound)
        except HeadwiseError as error:
            if "installed" not in str(error) or arguments.models:
                raise
            found[name] = {"not installed": str(error)}
        if not arguments.json:
            print_lines(name, found[name])
    if arguments.json:
        print(json.dumps(found, indent=2))


@torch.no_grad()
def compare(name: str, sound: Path | None) -> dict:
    """The differences of one model."""
    model = open_model(name)
    inputs = inputs_for(model, name, sound)
    plain = model.network(**inputs)
    with record(model.network) as recording:
        watched = model.network(**inputs)
    identical = all(torch.equal(x, y) for x, y in zip(tensors(plain), tensors(watched), strict=True))
    eager = open_model(name, attention="eager").network(**inputs, output_attentions=True)
    worst: dict[str, float] = {}
    for layer, p in zip(recording.layers.values(), probabilities(eager), strict=True):
        cross = "encoder_attn" in layer.name
        causal = name == "smollm2" or "decoder" in layer.name
        for statistic, difference in differences(layer.sums, p[0].double().numpy(), cross, causal).items():
            worst[statistic] = max(worst.get(statistic, 0.0), difference)
    return {
        "layers": len(recording.layers),
        "heads": sum(layer.heads for layer in recording.layers.values()),
        "output identical": identical,
        "all calls seen": recording.coverage.complete,
        "recomputed output": recording.coverage.largest_difference,
        "differences": worst,
    }


def inputs_for(model, name: str, sound: Path | None) -> dict:
    if name == "whisper":
        return model.encode(samples_of(sound), TRANSCRIPT)
    if name == "dinov2":
        return model.encode(torch.rand(3, 224, 224, generator=torch.Generator().manual_seed(0)))
    return model.encode(REACTION if name == "rxnmapper" else TEXT).inputs


def samples_of(sound: Path | None) -> torch.Tensor:
    if sound is None:
        return torch.randn(16_000, generator=torch.Generator().manual_seed(0)) / 10
    with wave.open(str(sound)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
    return torch.from_numpy(samples / np.float32(32768))


def tensors(output) -> list[torch.Tensor]:
    return [x for x in torch.utils._pytree.tree_leaves(dict(output)) if isinstance(x, torch.Tensor)]


def probabilities(eager) -> list[torch.Tensor]:
    """In the order of the calls: an encoder's, then each decoder layer's own and its cross-attention."""
    if getattr(eager, "decoder_attentions", None) is None:
        return list(eager.attentions)
    both = zip(eager.decoder_attentions, eager.cross_attentions, strict=True)
    return [*eager.encoder_attentions, *(x for pair in both for x in pair)]


def differences(sums, p: np.ndarray, cross: bool, causal: bool) -> dict[str, float]:
    """The largest difference of each statistic over a layer's heads."""
    wanted = plain_statistics(p, cross)
    found = {}
    for statistic, of_rows in wanted.items():
        want, got = np.nanmean(of_rows, axis=1), sums.mean(statistic).numpy()
        size = np.abs(want).max() if statistic in RELATIVE else 1.0
        found[statistic] = float(np.abs(got - want).max() / max(size, 1e-12))
    received = p.sum(1)
    found["received"] = float(np.abs(sums.received.numpy() - received).max() / received.max())
    could = np.arange(p.shape[2], 0, -1) if causal and not cross else np.full(p.shape[2], p.shape[1])
    found["could"] = float(np.abs(sums.could.numpy() - could).max())
    picture = overview(p)
    found["overview"] = float(np.abs(sums.overview.numpy() - picture).max() / picture.max())
    if not cross:
        histogram = by_distance(p)
        found["by distance"] = float(np.abs(sums.by_distance().numpy() - histogram).max())
    return found


def plain_statistics(p: np.ndarray, cross: bool) -> dict[str, np.ndarray]:
    """Each statistic of each row, ``heads query``, from probabilities ``heads query key``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.where(p > 0, p * np.log(p), 0.0).sum(2)
    found = {"entropy": entropy, "confidence": p.max(2), "first": p[:, :, 0]}
    if cross:
        return found
    rows = np.arange(p.shape[1])
    away = np.abs(rows[:, None] - rows)
    mean = (p * away).sum(2) / p.sum(2)
    spread = np.sqrt((p * (away - mean[:, :, None]) ** 2).sum(2) / p.sum(2))
    previous, following = (np.stack([np.diagonal(one, offset) for one in p]) for offset in (-1, 1))
    own = np.stack([np.diagonal(one) for one in p])
    return {**found, "distance": mean, "spread": spread, "self": own, "previous": previous, "next": following}


def overview(p: np.ndarray) -> np.ndarray:
    """The mass from each 64th of the queries to each 64th of the keys."""
    queries, keys = (np.eye(64)[np.arange(size) * 64 // size] for size in p.shape[1:])
    return queries.T @ p @ keys


def by_distance(p: np.ndarray) -> np.ndarray:
    """The mass that the average row gives to distances 0, 1, 2 to 3, 4 to 7 and so on."""
    rows = np.arange(p.shape[1])
    bins = np.ceil(np.log2(np.abs(rows[:, None] - rows) + 1)).astype(int)
    return np.stack([np.bincount(bins.ravel(), one.ravel(), minlength=32) for one in p]) / len(rows)


def print_lines(name: str, found: dict) -> None:
    if "not installed" in found:
        print(f"{name}: {found['not installed']}\n")
        return
    print(f"{name}: {found['layers']} layers, {found['heads']} heads")
    print(
        f"  output with recording is that without, to the bit: {'yes' if found['output identical'] else 'NO'}"
    )
    print(f"  all calls seen: {'yes' if found['all calls seen'] else 'NO'}")
    print(f"  recomputed outputs differ by at most {found['recomputed output']:.1e}")
    parts = [f"{statistic} {value:.1e}" for statistic, value in found["differences"].items()]
    print(f"  from eager: {', '.join(parts)}\n")


if __name__ == "__main__":
    main()
