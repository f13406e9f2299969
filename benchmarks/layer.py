"""Time and memory of MultiHeadAttention beside the barest module that does the same, and its peers.

    python benchmarks/layer.py [--quick] [--json] [--busy]

Steps with a cache are in decoding.py, every other encoding in every_encoding.py.

Every time is a ratio to the bare module (one fused projection, scaled_dot_product_attention, output
projection) taken in the same round. Evaluation mode, float32, model_dim 512, 8 heads, biases on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import NamedTuple

MODEL_DIM, HEADS = 512, 8
SIZES = ((8, 128, 60), (4, 512, 25), (1, 2048, 15), (1, 8192, 5))  # batch, length, rounds
QUICK = ((8, 128, 10), (2, 256, 5))
LONG, QUICK_LONG = 32_768, 2048
LONG_LIMIT = 3 * 1024  # MiB


class Size(NamedTuple):
    batch: int
    length: int
    causal: bool

    def __str__(self) -> str:
        return f"({self.batch}, {self.length}) {'causal' if self.causal else 'full'}"


class Goal(NamedTuple):
    what: str
    limit: float
    measured: float
    where: str

    @property
    def held(self) -> bool:
        return self.measured <= self.limit


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it run?")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--busy",
        action="store_true",
        help="one thread and processor time, which other programs do not add to",
    )
    arguments = parser.parse_args()
    length = QUICK_LONG if arguments.quick else LONG
    memory = _memory(length)  # first: it wants a process that has not imported torch
    timings, notes = _timings(QUICK if arguments.quick else SIZES, arguments.busy)
    goals = [*_speed_goals(timings), _memory_goal(memory, length)]
    if arguments.json:
        print(json.dumps(_as_json(timings, memory, length, goals, notes), indent=2))
    else:
        from tables import show

        show(timings, memory, length, goals, notes)
    return 0


def _memory(length: int) -> dict[str, dict[str, dict[str, float]]]:
    from memory import measure

    found: dict[str, dict[str, dict[str, float]]] = {}
    for position in ("none", "rotary", "alibi"):
        found[position] = {}
        for what, tokens in (("forward", length), ("training", length // 4)):
            _progress(f"peak memory at {tokens:,} tokens: {position}, {what}")
            found[position][what] = measure(position, tokens, backward=what == "training")
    return found


def _timings(sizes, busy: bool):
    import torch
    from peers import contenders
    from rounds import forward_times, torch_path, training_times

    torch.manual_seed(0)
    clock = time.process_time if busy else time.perf_counter
    if busy:
        torch.set_num_threads(1)
    timings, notes = {}, []
    for batch, length, rounds in sizes:
        for causal in (False, True):
            size = Size(batch, length, causal)
            x = torch.randn(batch, length, MODEL_DIM)
            found, missing = contenders(MODEL_DIM, HEADS, length, causal)
            _refuse_different(found, x, size)
            _progress(f"{size}: forward, {rounds} rounds")
            forward = forward_times(found, x, rounds, clock)
            _progress(f"{size}: forward and backward, {rounds} rounds")
            timings[size] = {"forward": forward, "training": training_times(found, x, rounds, clock)}
    rival = next(contender for contender in found if contender.name == "torch MultiheadAttn")
    small = x[:, :64]
    notes.append(
        f"torch.nn.MultiheadAttention used {torch_path(rival, small, grad=False)} without gradients "
        f"and {torch_path(rival, small, grad=True)} with them."
    )
    notes += [f"{name}: not installed." for name in missing]
    notes.append(
        f"{torch.get_num_threads()} threads, {'processor' if busy else 'wall-clock'} time, "
        f"torch {torch.__version__}. "
        "x-transformers has no bias in its projections; it and HF Llama get their angles from outside."
    )
    return timings, notes


def _refuse_different(found, x, size: Size) -> None:
    import torch
    from rounds import differences

    # each output is built of dot products of model_dim terms, so rounding is at most about this
    bound = 4 * MODEL_DIM * torch.finfo(x.dtype).eps
    for name, difference in differences(found, x).items():
        if not difference <= bound:
            sys.exit(f"{size}: {name} differs from the bare module by {difference:.1e}; no speeds reported.")


def _speed_goals(timings) -> list[Goal]:
    def worst(name: str, lengths, over: str | None = None) -> tuple[float, str]:
        ratios = []
        for size, of_size in timings.items():
            for what, times in of_size.items():
                if lengths(size.length):
                    ratio = times[name].ratio.median / (times[over].ratio.median if over else 1)
                    ratios.append((ratio, f"{size}, {'forward' if what == 'forward' else 'with backward'}"))
        return max(ratios, default=(float("nan"), "not measured"))

    goals = [
        Goal("no position, over bare", 1.05, *worst("headwise", lambda length: True)),
        Goal("rotary, length >= 512, over bare", 1.10, *worst("headwise rotary", lambda n: n >= 512)),
    ]
    for what in ("forward", "training"):
        only = {size: {what: of_size[what]} for size, of_size in timings.items() if size.length == 8192}
        for size, of_size in only.items():
            times = of_size[what]
            ratio = times["headwise"].seconds.median / times["torch MultiheadAttn"].seconds.median
            side = "forward" if what == "forward" else "with backward"
            goals.append(Goal("over torch MultiheadAttn at 8,192", 0.5, ratio, f"{size}, {side}"))
    return goals


def _memory_goal(memory, length: int) -> Goal:
    total = memory["alibi"]["forward"]["total"]
    return Goal("MiB in all, ALiBi, causal", LONG_LIMIT, total, f"{length:,} tokens, forward")


def _as_json(timings, memory, length: int, goals: list[Goal], notes: list[str]) -> dict:
    def timing(of_size) -> dict:
        return {
            what: {
                name: {"seconds": t.seconds._asdict(), "ratio": t.ratio._asdict()}
                for name, t in times.items()
            }
            for what, times in of_size.items()
        }

    return {
        "timings": [{**size._asdict(), **timing(of_size)} for size, of_size in timings.items()],
        "memory_mib": {"length": length, **memory},
        "goals": [{**goal._asdict(), "held": goal.held} for goal in goals],
        "notes": notes,
    }


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
