"""Peak memory of one attention layer on a long input: run in a process of its own, prints one line of JSON.

The peak is that of the whole process, torch included, so nothing that the layer allocates can hide.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

MIB = 2**20


def measure(position: str, length: int, backward: bool) -> dict[str, float]:
    """MiB in total, and above what the process needed before the call.

    The system starts a process's peak at that of the process that launched it, so this is called before
    torch is imported here.
    """
    if "torch" in sys.modules:
        raise RuntimeError("measure memory before torch is imported: the peak of a child starts at ours")
    command = [sys.executable, str(Path(__file__)), position, str(length), *(["--backward"] * backward)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(answer)


def _peak() -> float:
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, kibibytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MIB


def _run(position: str, length: int, backward: bool) -> dict[str, float]:
    import torch
    from every_encoding import layer_and_call

    _, call = layer_and_call(position, length)
    _, warm = layer_and_call(position, 8)
    warm(torch.zeros(1, 8, 512)).sum().backward()  # what the first call loads is not the layer's
    x = torch.randn(1, length, 512, requires_grad=backward)
    before = _peak()
    with torch.set_grad_enabled(backward):
        output = call(x)
    if backward:
        output.backward(torch.ones_like(output))
    return {"total": _peak(), "above": _peak() - before}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("position")
    parser.add_argument("length", type=int)
    parser.add_argument("--backward", action="store_true")
    arguments = parser.parse_args()
    print(json.dumps(_run(arguments.position, arguments.length, arguments.backward)))
