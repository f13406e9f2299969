"""What looking inside costs: a map's statistics beside a fused call, and a recorded model beside a plain one.

    python benchmarks/look.py [--quick] [--json] [--busy]

Maps have 8 heads of 64, float32; each call of ``statistics`` follows a fused call of its round. Memory is the
peak above the inputs, each length in a process of its own. The recorded model is that of recording.py.
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

import recording

HEADS, HEAD_DIM = 8, 64
SIZES = ((2048, 9), (8192, 3))  # length, rounds
QUICK = ((512, 3),)
LONG, QUICK_LONG = (8192, 16_384, 32_768), (512, 1024)
TIME_GOAL, MEMORY_GOAL = 4.0, 1024  # times the fused call, MiB


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it run?")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.add_argument("--busy", action="store_true", help="one thread and processor time")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print(_peak_above_inputs(arguments.peak))
        return 0
    # memory first: a child's peak starts at that of its parent, so torch must not be here yet
    memory = {length: _measure(length) for length in (QUICK_LONG if arguments.quick else LONG)}
    passes, long = recording.measure(quick=arguments.quick)
    times = _times(QUICK if arguments.quick else SIZES, arguments.busy)
    if arguments.json:
        found = {"times": times, "memory_mib": memory, "passes": passes, "long": long}
        print(json.dumps(found, indent=2))
        return 0
    for found in times:
        print(
            "{length:,} tokens, {mask}: fused {fused:.3f} s, all statistics {ratio:.1f} times "
            "({low:.1f} to {high:.1f})".format(**found)
        )
    print(f"goal: at most {TIME_GOAL:g} times")
    for length, mib in memory.items():
        print(f"{length:,} tokens: {mib:.0f} MiB above the inputs")
    print(f"goal: at most twice for twice the length, and below {MEMORY_GOAL:,} MiB")
    recording.print_lines(passes, long)
    return 0


def _times(sizes, busy: bool) -> list[dict]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    from headwise import AttentionMap, Causal

    torch.manual_seed(0)
    clock = time.process_time if busy else time.perf_counter
    if busy:
        torch.set_num_threads(1)
    found = []
    for length, rounds in sizes:
        q, k, v = (torch.randn(1, HEADS, length, HEAD_DIM) for _ in range(3))
        for causal in (False, True):
            p = AttentionMap(q, k, mask=Causal() if causal else None)
            fused, ratios = [], []
            for _ in range(rounds + 1):  # the first warms up
                started = clock()
                scaled_dot_product_attention(q, k, v, is_causal=causal)
                between = clock()
                p.statistics()
                fused.append(between - started)
                ratios.append((clock() - between) / fused[-1])
            found.append(
                {
                    "length": length,
                    "mask": "causal" if causal else "full",
                    "fused": statistics.median(fused[1:]),
                    "ratio": statistics.median(ratios[1:]),
                    "low": min(ratios[1:]),
                    "high": max(ratios[1:]),
                }
            )
    return found


def _measure(length: int) -> float:
    command = [sys.executable, str(Path(__file__)), "--peak", str(length)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _peak_above_inputs(length: int) -> float:
    import torch

    from headwise import AttentionMap, Causal

    def peak() -> float:
        unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20

    # what the first call loads is not the map's; enough scores for the compiled pass, of few keys
    AttentionMap(torch.randn(1, 1, 2**17, 2), torch.randn(1, 1, 16, 2), mask=Causal()).statistics()
    q, k = (torch.randn(1, HEADS, length, HEAD_DIM) for _ in range(2))
    before = peak()
    AttentionMap(q, k, mask=Causal()).statistics()
    return peak() - before


if __name__ == "__main__":
    sys.exit(main())
