"""A SmolLM2 forward pass with look.record beside one without, and beside the eager model giving its weights.

    python benchmarks/recording.py [--quick] [--json]

Each row is one process: the model is loaded, a short text warms it up, then one pass after another. Times are
medians; "times" is over the plain fused pass of the same process, round by round. Memory is the peak of the
whole process over that of one that only runs the plain pass. The 65,536-token row has SmolLM2's attention (9
heads of 64 on 3) and width in 2 of its 30 layers.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

LENGTHS, ROUNDS = (1024, 2048, 4096), 7
LONG, LONG_LAYERS = 65_536, 2
WAYS = ("plain", "record 512 rows", "record all rows", "eager with output_attentions")
TIME_GOAL, MEMORY_GOAL = 1.25, 1.15


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="128 tokens, one round: does it run?")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("--one", nargs=3, metavar=("WAY", "LENGTH", "ROUNDS"), help=argparse.SUPPRESS)
    parser.add_argument("--long", type=int, metavar="LENGTH", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        way, length, rounds = arguments.one
        print(json.dumps(_one(way, int(length), int(rounds))))
        return 0
    if arguments.long:
        print(json.dumps(_long(arguments.long)))
        return 0
    found, long = measure(quick=arguments.quick)
    if arguments.json:
        print(json.dumps({"passes": found, "long": long}, indent=2))
    else:
        print_lines(found, long)
    return 0


def measure(*, quick: bool) -> tuple[list[dict], dict]:
    """One row for each length and way, and the long text."""
    found = compare((128,) if quick else LENGTHS, 1 if quick else ROUNDS)
    return found, _in_process("--long", "512" if quick else str(LONG))


def compare(lengths: tuple[int, ...], rounds: int) -> list[dict]:
    """One row for each length and way."""
    rows = []
    for length in lengths:
        alone = None
        for way in WAYS:
            found = _in_process("--one", way, str(length), str(rounds))
            alone = found["peak_mib"] if alone is None else alone
            rows.append({"length": length, "way": way, **found, "memory_ratio": found["peak_mib"] / alone})
    return rows


def print_lines(found: list[dict], long: dict) -> None:
    for row in found:
        print(
            "{length:>6,} tokens, {way}: {seconds:.2f} s, {ratio:.2f} times ({low:.2f} to {high:.2f}); "
            "{peak_mib:,.0f} MiB, {memory_ratio:.2f} times".format(**row)
        )
    print(
        f"goal at 2,048 tokens, 512 rows: at most {TIME_GOAL} times the time, {MEMORY_GOAL} times the memory"
    )
    print(
        "{length:,} tokens, {layers} layers of SmolLM2's size: plain {plain:.0f} s, recorded (512 rows) "
        "{recorded:.0f} s, peak {peak_mib:,.0f} MiB".format(**long)
    )


def _in_process(*arguments: str) -> dict:
    command = [sys.executable, str(Path(__file__)), *arguments]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _one(way: str, length: int, rounds: int) -> dict:
    import torch

    from headwise.look import record
    from headwise.models import open_text_model

    eager = way.startswith("eager")
    network = open_text_model("smollm2", attention="eager" if eager else "sdpa").network
    tokens = torch.randint(0, 49_152, (1, length), generator=torch.Generator().manual_seed(0))

    def run(tokens: torch.Tensor) -> None:
        if way.startswith("record"):
            with record(network, rows=512 if "512" in way else None) as recording:
                network(tokens)
            assert recording.coverage.complete
        else:
            network(tokens, output_attentions=eager)

    seconds, ratios = [], []
    with torch.no_grad():
        run(tokens[:, :64])
        run(tokens)
        peak = _peak()
        beside = open_text_model("smollm2").network if eager else network
        beside(tokens)
        for _ in range(rounds):
            started = time.perf_counter()
            beside(tokens)
            between = time.perf_counter()
            run(tokens)
            seconds.append(time.perf_counter() - between)
            ratios.append(seconds[-1] / (between - started))
    return {
        "seconds": statistics.median(seconds),
        "ratio": statistics.median(ratios),
        "low": min(ratios),
        "high": max(ratios),
        "peak_mib": peak,
    }


def _long(length: int) -> dict:
    import torch
    from transformers import LlamaConfig, LlamaModel

    from headwise.look import record

    torch.manual_seed(0)
    network = LlamaModel(
        LlamaConfig(
            vocab_size=49_152,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=LONG_LAYERS,
            num_attention_heads=9,
            num_key_value_heads=3,
            rope_theta=100_000.0,
            max_position_embeddings=length,
            attn_implementation="sdpa",
        )
    ).eval()
    tokens = torch.randint(0, 49_152, (1, length))
    with torch.no_grad():
        started = time.perf_counter()
        network(tokens, use_cache=False)
        between = time.perf_counter()
        with record(network, rows=512) as recording:
            network(tokens, use_cache=False)
        ended = time.perf_counter()
    return {
        "length": length,
        "layers": len(recording.layers),
        "plain": between - started,
        "recorded": ended - between,
        "peak_mib": _peak(),
    }


def _peak() -> float:
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


if __name__ == "__main__":
    sys.exit(main())
