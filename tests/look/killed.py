"""Kills processes while they save a recording, at every step and at many moments; writes what was left.

    python -m tests.look.killed FOLDER

It runs as a process of its own, as one that forks should have no other threads.
"""

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

import torch

from headwise.look import InMemory, load, save
from headwise.look.recordings import kept as kept_module
from headwise.look.recordings import recording_file
from tests.look.corpus import recording_of, sums

MOMENTS = 25
STEPS = ("mkstemp", "save_file", "chmod", "replace", "unlink")  # what a save does to files


def main():
    torch.set_num_threads(1)
    runs = [recording_of(numbers, keep=InMemory()) for numbers in ((4,), (0,))]
    folder = Path(sys.argv[1])
    found = {"steps": at_every_step(folder, runs), "moments": at_moments(folder, runs)}
    sys.stdout.write(json.dumps(found))


def at_every_step(folder, runs):
    """The old recording is there, and a process that saves the new one dies at its first, second ... step."""
    found = []
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        save(runs[0], folder)
        child = os.fork()
        if not child:
            die_at(len(found))
            save(runs[1], folder)
            os._exit(0)
        died = os.waitpid(child, 0)[1] == signal.SIGKILL
        if not died:
            assert which(folder, runs) == 1
            return found
        found.append(which(folder, runs))


def die_at(step):
    """From now on, die when files are touched for the (step + 1)-th time: before it or after it, by turns."""
    left = [step // 2]

    def dying(function):
        def call(*arguments, **options):
            if left[0] == 0 and step % 2 == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            result = function(*arguments, **options)
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return result

        return call

    tempfile.mkstemp = dying(tempfile.mkstemp)
    for module in (kept_module, recording_file):
        module.save_file = dying(module.save_file)
    for name in ("chmod", "replace", "unlink"):
        setattr(Path, name, dying(getattr(Path, name)))


def at_moments(folder, runs):
    """A process saves one and the other by turns, and dies some time."""
    moments, found = random.Random(0), []
    for _ in range(MOMENTS):
        child = os.fork()
        if not child:
            for number in count():
                save(runs[(number + len(found)) % 2], folder)
        time.sleep(moments.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found.append(which(folder, runs))
    return found


def which(folder, runs):
    """Which of the recordings is there, whole, with its maps."""
    found = load(folder)
    for number, run in enumerate(runs):
        if found.documents == run.documents:
            assert all(
                torch.equal(x.nan_to_num(), sums(run)[name].nan_to_num()) for name, x in sums(found).items()
            )
            assert len(found.kept) == len(run.kept)
            for one, other in zip(found.kept, run.kept, strict=True):
                assert torch.equal(one.map().dense(), other.map().dense())
            return number
    raise AssertionError(found)


if __name__ == "__main__":
    main()
