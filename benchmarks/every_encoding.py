"""What every encoding costs over none: time forward and backward, compiled or not, and peak memory.

    python benchmarks/every_encoding.py [--quick] [--compiled] [--memory]

A causal layer of model_dim 512 and 8 heads, float32. Times are ratios to the layer without positions in the
same round. ``--compiled`` lets torch compile each layer, beside one without positions; that takes a C++
compiler and a minute or two for each, so lines come as they are measured. ``--memory`` runs 32,768 tokens
through each encoding in a process of its own, which takes minutes too.
"""

from __future__ import annotations

import argparse
import sys
import time

MODEL_DIM, HEADS = 512, 8
SIZES = ((4, 512, 7), (1, 4096, 3))  # batch, length, rounds
QUICK = ((2, 64, 2),)
LONG, LIMIT = 32_768, 3 * 1024  # tokens, MiB
NAMES = (
    "none",
    "sinusoidal",
    "learned",
    "rotary",
    "rotary, YaRN",
    "xpos",
    "axial",
    "mixed",
    "multimodal",
    "alibi",
    "t5",
    "kerple, log",
    "kerple, power",
    "fire",
    "sandwich",
    "swin",
    "beit",
    "log-cpb",
    "shaw",
    "transformer-xl",
    "deberta",
    "cope",
    "forget gate",
)
OF_GRIDS = ("axial", "mixed", "swin", "beit", "log-cpb")


def grid_of(length: int) -> tuple[int, int]:
    """Rows and columns of about equal number."""
    rows = 2 ** (length.bit_length() // 2)
    return rows, length // rows


def encoding(name: str, length: int):
    """The encoding of that name, at the sizes of this benchmark."""
    from headwise import layers as lib

    head_dim, grid = MODEL_DIM // HEADS, grid_of(length)
    return {
        "none": lib.NoPosition,
        "sinusoidal": lib.Sinusoidal,
        "learned": lambda: lib.Learned(length, MODEL_DIM),
        "rotary": lib.Rotary,
        "rotary, YaRN": lambda: lib.Rotary(scaling=lib.YaRN(4.0, original_length=4096)),
        "xpos": lambda: lib.XPos(centre=length // 2),
        "axial": lambda: lib.AxialRotary(),
        "mixed": lambda: lib.MixedRotary(HEADS, head_dim),
        "multimodal": lambda: lib.MultimodalRotary((16, 8, 8)),
        "alibi": lambda: lib.ALiBi(HEADS),
        "t5": lambda: lib.T5Bias(HEADS, bidirectional=False),
        "kerple, log": lambda: lib.KerpleLog(HEADS),
        "kerple, power": lambda: lib.KerplePower(HEADS),
        "fire": lambda: lib.Fire(HEADS),
        "sandwich": lambda: lib.Sandwich(HEADS),
        "swin": lambda: lib.SwinTable(HEADS, window=grid),
        "beit": lambda: lib.BEiTTable(HEADS, window=grid),
        "log-cpb": lambda: lib.LogCPB(HEADS, window=grid),
        "shaw": lambda: lib.Shaw(head_dim, 16),
        "transformer-xl": lambda: lib.TransformerXL(MODEL_DIM, HEADS),
        "deberta": lambda: lib.DeBERTa(MODEL_DIM, HEADS, max_distance=512),
        "cope": lambda: lib.CoPE(head_dim, max_position=64),
        "forget gate": lambda: lib.ForgetGate(MODEL_DIM, HEADS),
    }[name]()


def layer_and_call(name: str, length: int):
    """A causal layer with that encoding, and how to call it on ``[batch length model_dim]``."""
    from headwise.core import Causal
    from headwise.layers import MultiHeadAttention, grid_positions

    layer = MultiHeadAttention(MODEL_DIM, HEADS, position=encoding(name, length), mask=Causal()).eval()
    positions = grid_positions(*grid_of(length)) if name in OF_GRIDS else None
    return layer, lambda x: layer(x, positions=positions)


def timings(sizes) -> dict[str, dict[str, dict]]:
    """Ratios to no encoding, by size: forward, and forward with backward."""
    import torch
    from peers import Contender
    from rounds import forward_times, training_times

    torch.manual_seed(0)
    found = {}
    for batch, length, rounds in sizes:
        contenders = [Contender(name, *layer_and_call(name, length)) for name in NAMES]
        x = torch.randn(batch, length, MODEL_DIM)
        size = f"({batch}, {length:,})"
        print(f"{size}: {len(NAMES)} encodings, {rounds} rounds", file=sys.stderr, flush=True)
        found[size] = {
            "forward": forward_times(contenders, x, rounds, time.perf_counter),
            "forward and backward": training_times(contenders, x, rounds, time.perf_counter),
        }
    return found


def show_compiled(sizes) -> None:
    """Compiled layers over none, compiled, and over themselves as they are: a line each, as they come."""
    import torch
    from peers import Contender
    from rounds import forward_times, training_times

    print("compiled: forward and with backward, over none compiled (over itself not compiled); to compile")
    for batch, length, rounds in sizes:
        x = torch.randn(batch, length, MODEL_DIM)
        for name in NAMES[1:]:
            torch.manual_seed(0)
            torch.compiler.reset()
            layers = {one: layer_and_call(one, length) for one in ("none", name)}
            contenders = [
                Contender(one, layer, torch.compile(call, dynamic=False))
                for one, (layer, call) in layers.items()
            ]
            started = time.perf_counter()
            for contender in contenders:
                with torch.no_grad():
                    contender.call(x)
                contender.call(x.clone().requires_grad_()).sum().backward()
            seconds = time.perf_counter() - started
            contenders.append(Contender("as it is", *layers[name]))
            forward, training = (
                times(contenders, x, rounds, time.perf_counter) for times in (forward_times, training_times)
            )
            cells = "  ".join(f"{_over_none(of)} ({_over_itself(of)})" for of in (forward, training))
            print(f"({batch}, {length:,}) {name:16} {cells}  {seconds:4.0f} s", flush=True)


def _over_none(times) -> str:
    return f"{list(times.values())[1].ratio.median:5.2f}"


def _over_itself(times) -> str:
    _, compiled, plain = times.values()
    return f"{compiled.seconds.median / plain.seconds.median:.2f}"


def show_peaks(length: int) -> None:
    """Peak MiB of the whole process, forward alone, by encoding: a line each, as they come."""
    from memory import measure

    for name in NAMES:
        total = measure(name, length, backward=False)["total"]
        print(f"{name:16} {total:8,.0f} MiB{'' if total <= LIMIT else '  over 3 GiB'}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small size and few rounds: does it run?")
    parser.add_argument("--compiled", action="store_true", help="let torch compile the layers")
    parser.add_argument("--memory", action="store_true", help="peak memory on a long input")
    arguments = parser.parse_args()
    if arguments.memory:  # first: it wants a process that has not imported torch
        show_peaks(2048 if arguments.quick else LONG)
        return 0
    sizes = QUICK if arguments.quick else SIZES
    if arguments.compiled:
        show_compiled(sizes)
        return 0
    from tables import show_ratios

    for size, times in timings(sizes).items():
        show_ratios(f"Over no encoding, causal, {size}", times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
