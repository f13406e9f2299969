"""No path builds the matrix of all queries and all keys: memory grows with the block, not the square."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headwise.core import Causal, Padding, SlidingWindow, attention, blocks
from headwise.layers import ALiBi, MultiHeadAttention

LENGTH, HEADS = 512, 2
MATRIX = HEADS * LENGTH * LENGTH
BUDGET = MATRIX // 16  # numbers in the score matrices of one block


def limit_blocks(monkeypatch):
    for limit in ("_BLOCK_ELEMENTS", "_RECOMPUTED_ELEMENTS", "_KEPT_ELEMENTS"):
        monkeypatch.setattr(blocks, limit, BUDGET)


class LargestTensor(TorchDispatchMode):
    """Notes the size of the largest tensor that any operation makes."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        made = operation(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor)]
        self.numbers = max([self.numbers, *sizes])
        return made


def half_slope(q, k, rows, columns, visible):
    positions = torch.arange(LENGTH)
    return ALiBi(HEADS).bias(q, k, positions[rows], positions[columns], visible)


PATHS = {
    "no mask": {},
    "causal": {"mask": Causal()},
    "window": {"mask": SlidingWindow(8)},
    "padding": {"mask": Padding(torch.ones(1, LENGTH, dtype=torch.bool))},
    "causal & padding": {"mask": Causal() & Padding(torch.ones(1, LENGTH, dtype=torch.bool))},
    "bias function": {"bias": half_slope},
    "bias function, causal": {"bias": half_slope, "mask": Causal()},
    "softcap": {"softcap": 20.0, "mask": Causal()},
    "sinks": {"sinks": torch.zeros(HEADS)},
    "sinks, causal": {"sinks": torch.zeros(HEADS), "mask": Causal()},
    "sinks, bias function": {"sinks": torch.zeros(HEADS), "bias": half_slope},
    "sinks, softcap": {"sinks": torch.zeros(HEADS), "softcap": 20.0},
    "dropout": {"dropout": 0.1},
    "dropout, causal": {"dropout": 0.1, "mask": Causal()},
    "dropout, padding": {"dropout": 0.1, "mask": Padding(torch.ones(1, LENGTH, dtype=torch.bool))},
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value_dim", [8, 4])
def test_no_tensor_is_as_large_as_the_matrix(monkeypatch, path, value_dim):
    limit_blocks(monkeypatch)
    q, k = (torch.randn(1, HEADS, LENGTH, 8, requires_grad=True) for _ in range(2))
    v = torch.randn(1, HEADS, LENGTH, value_dim, requires_grad=True)
    with LargestTensor() as largest:
        attention(q, k, v, **PATHS[path]).sum().backward()
    sink_column = HEADS * LENGTH if "sinks" in PATHS[path] else 0
    assert largest.numbers <= BUDGET + sink_column


def test_a_mask_for_each_row_of_the_batch_counts_each_row(monkeypatch):
    limit_blocks(monkeypatch)
    x = torch.randn(4, HEADS, LENGTH, 8, requires_grad=True)
    mask = Causal() & Padding(torch.ones(4, LENGTH, dtype=torch.bool))
    with LargestTensor() as largest:
        attention(x, x, x, mask=mask).sum().backward()
    assert largest.numbers <= BUDGET


def test_the_meter_sees_a_matrix():
    x = torch.randn(1, HEADS, LENGTH, 8)
    with LargestTensor() as largest:
        x @ x.mT
    assert largest.numbers == MATRIX


MEASURE = """
    import resource, torch
    from headwise.core import blocks
    from headwise.layers import ALiBi, MultiHeadAttention

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    torch.set_num_threads(1)
    blocks._KEPT_ELEMENTS = blocks._RECOMPUTED_ELEMENTS = 2**22
    layer = MultiHeadAttention(32, heads=8, position=ALiBi(8))
    layer(torch.randn(1, 600, 32)).sum().backward()  # two blocks, so that all code is loaded
    before = peak()
    layer(torch.randn(1, 3072, 32)).sum().backward()
    print(peak() - before)
"""


def test_peak_memory_of_a_training_step_with_alibi():
    """At 3,072 tokens one matrix of 8 heads is 288 MiB, and plain autograd would keep several."""
    # glibc then returns what is freed, so that the peak is what we hold and not how its heap lies
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    command = [sys.executable, "-c", textwrap.dedent(MEASURE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    grown = int(done.stdout)
    # a block has 16 MiB of scores, beside its bias, lifted, and what the kernel makes of both: 94 measured
    assert grown < 8 * 16 * 2**20


LONG_FORWARD = """
    import resource, torch
    from headwise.core import Causal
    from headwise.layers import KerpleLog, MultiHeadAttention

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    torch.set_num_threads(1)
    layer = MultiHeadAttention(32, heads=8, position=KerpleLog(8), mask=Causal())
    with torch.no_grad():
        layer(torch.randn(1, 300, 32))
        before = peak()
        layer(torch.randn(1, 8192, 32))
    print(peak() - before)
"""


def test_blocks_of_a_long_text_reuse_the_memory_of_those_before():
    """Each block of a causal text is wider than the one before; what is freed must serve it all the same."""
    command = [sys.executable, "-c", textwrap.dedent(LONG_FORWARD)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # 8 MiB of scores in a block and a few such tensors beside each other: 43 to 66 MiB measured, and 365 to
    # 515 with a small output kept between every two blocks
    assert int(done.stdout) < 16 * 8 * 2**20


def test_a_layer_at_any_length_keeps_to_the_block(monkeypatch):
    limit_blocks(monkeypatch)
    layer = MultiHeadAttention(8, HEADS, position=ALiBi(HEADS), mask=Causal(), dropout=0.1)
    with LargestTensor() as largest:
        layer(torch.randn(1, LENGTH, 8)).sum().backward()
    assert largest.numbers <= BUDGET
