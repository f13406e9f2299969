"""The public names: sorted, real, all of them documented, and cheap to reach."""

import importlib
import inspect
import re
import subprocess
import sys

import pytest

import headwise

LAZY = ("headwise", "headwise.check", "headwise.experiments")  # names load what they need when first used
EAGER = (
    "headwise.annotations",
    "headwise.core",
    "headwise.core.masks",
    "headwise.layers",
    "headwise.layers.conversion",
    "headwise.layers.parallel",
    "headwise.layers.positions",
    "headwise.models",
    "headwise.look",
)
ROOMS = (*LAZY, *EAGER)


@pytest.mark.parametrize("room", ROOMS)
def test_all_is_sorted_and_exact(room):
    module = importlib.import_module(room)
    assert list(module.__all__) == sorted(module.__all__, key=lambda name: (not name.isupper(), name))
    for name in module.__all__:
        assert getattr(module, name).__doc__, f"{room}.{name} has no docstring"


@pytest.mark.parametrize("room", LAZY)
def test_a_lazy_room_tells_type_checkers_the_same_names(room):
    module = importlib.import_module(room)
    told = re.findall(r"^    from ([\w.]+) import (\w+) as (\w+)$", inspect.getsource(module), re.MULTILINE)
    assert sorted(name for _, name, shown in told if name == shown) == sorted(module.__all__)
    assert set(dir(module)) >= set(module.__all__)
    for place, name, _ in told:
        assert getattr(importlib.import_module(place), name) is getattr(module, name)
    with pytest.raises(AttributeError, match="no attribute 'Rotory'"):
        _ = module.Rotory


@pytest.mark.parametrize("room", EAGER)
def test_all_holds_everything_the_room_imports(room):
    module = importlib.import_module(room)
    shown = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert shown - {"annotations"} == set(module.__all__)


def test_the_top_offers_the_same_objects_as_the_rooms():
    from headwise import core, layers

    for name in headwise.__all__:
        room = core if name in core.__all__ else layers
        assert getattr(headwise, name) is getattr(room, name)


def test_every_room_is_there_by_its_own_name():
    script = "import sys; from headwise import " + ", ".join(
        room.split(".")[1] for room in ROOMS if room.count(".") == 1
    )
    script += "; assert annotations is sys.modules['headwise.annotations']"  # not __future__'s
    subprocess.run([sys.executable, "-c", script], check=True)


def loaded(statement):
    script = f"import sys; {statement}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_headwise_loads_no_torch():
    assert not loaded("import headwise, headwise.cli") & {
        "torch",
        "numpy",
        "rich",
        "matplotlib",
        "transformers",
    }
    assert "torch" in loaded("import headwise.core")  # the detector can see it


@pytest.mark.parametrize(
    "room", ["errors", "annotations", "check", "check.checked", "experiments", "experiments.check_apart"]
)
def test_what_the_command_line_waits_with_loads_no_torch(room):
    assert not loaded(f"import headwise.{room}") & {"torch", "numpy", "sympy", "rich", "transformers"}


def test_what_checks_a_target_loads_no_compiler():
    script = "import sys, headwise.experiments.check_target; assert 'torch' in sys.modules"
    script += "; assert not {'torch._dynamo', 'sympy', 'torch._inductor'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_layers_load_no_matplotlib_and_no_transformers():
    assert not loaded("import headwise.layers") & {"matplotlib", "transformers", "rich"}


def test_reference_loads_no_torch():
    assert "torch" not in loaded("import headwise.reference")
