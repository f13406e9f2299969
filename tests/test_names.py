"""The public names: sorted, real, all of them documented, and cheap to reach."""

import importlib
import inspect
import subprocess
import sys

import pytest

import headwise

ROOMS = (
    "headwise",
    "headwise.core",
    "headwise.core.masks",
    "headwise.layers",
    "headwise.layers.parallel",
    "headwise.layers.positions",
    "headwise.check",
    "headwise.models",
    "headwise.look",
    "headwise.experiments",
)


@pytest.mark.parametrize("room", ROOMS)
def test_all_is_sorted_and_exact(room):
    module = importlib.import_module(room)
    assert list(module.__all__) == sorted(module.__all__, key=lambda name: (not name.isupper(), name))
    for name in module.__all__:
        assert getattr(module, name).__doc__, f"{room}.{name} has no docstring"


@pytest.mark.parametrize("room", ROOMS[1:])
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


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Rotory'"):
        _ = headwise.Rotory


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


def test_layers_load_no_matplotlib_and_no_transformers():
    assert not loaded("import headwise.layers") & {"matplotlib", "transformers", "rich"}


def test_reference_loads_no_torch():
    assert "torch" not in loaded("import headwise.reference")
