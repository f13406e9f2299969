"""Runs a function in two processes that reach each other by gloo, on a CPU."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing

RANKS = 2


def in_two_processes(work):
    """What ``work(mesh)`` returns on each rank; it must be a function of a module, and tensors come back."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_run, args=(work, folder), nprocs=RANKS)
        return [torch.load(Path(folder, f"{rank}.pt")) for rank in range(RANKS)]


def _run(rank, work, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    mesh = dist.init_device_mesh("cpu", (RANKS,))
    torch.save(work(mesh), Path(folder, f"{rank}.pt"))
    dist.destroy_process_group()
