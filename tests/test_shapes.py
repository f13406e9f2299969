"""The shapes in annotations are true: every documented example runs with each call checked against them."""

import subprocess
import sys

SCRIPT = """
import doctest, importlib, pkgutil, sys
import torch
from jaxtyping import install_import_hook

torch.set_num_threads(1)
with install_import_hook("headwise", "beartype.beartype"):
    import headwise
    rooms = ("core", "layers", "look")
    names = [info.name for info in pkgutil.walk_packages(headwise.__path__, "headwise.")]
    modules = [importlib.import_module(name) for name in names if name.split(".")[1] in rooms]
failed = tried = 0
for module in modules:
    torch.manual_seed(0)
    result = doctest.testmod(module, extraglobs={"torch": torch})
    failed, tried = failed + result.failed, tried + result.attempted
print(tried, "examples,", failed, "failed")

from headwise.layers.positions.sinusoidal import Sinusoidal
try:
    Sinusoidal().embed(torch.zeros(3, 2), torch.arange(3))  # an axis short
except Exception as error:
    print("refused by", type(error).__name__)
"""


def test_documented_examples_keep_to_their_annotations():
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert lines[-1] == "refused by TypeCheckError", run.stdout + run.stderr  # the checker is awake
    tried, failed = int(lines[-2].split()[0]), int(lines[-2].split()[2])
    assert tried > 40
    assert failed == 0, run.stdout
