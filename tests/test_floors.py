"""Who may import whom: the table, the test that reads every import, and proof that the test can fail."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "headwise"

# each room and the rooms it may import besides itself; cli and the top of the package may import everything
FLOORS = {
    "errors": set(),
    "core": {"errors"},
    "reference": set(),
    "layers": {"core"},
    "annotations": {"errors"},
    "look": {"core", "annotations"},
    "check": {"core"},
    "models": {"core", "layers"},
    "testing": {"core", "check"},
    "experiments": {"errors", "core", "layers", "annotations", "look", "check", "models"},
    "cli": {"errors", "core", "layers", "annotations", "look", "check", "models", "experiments"},
    "__main__": {"cli"},
}
ONLY_OUTSIDER = {"reference": {"numpy"}, "errors": set()}
HEAVY = {"matplotlib", "transformers", "onnx", "spacy", "conllu", "numba"}  # imported where they are used
MADE_OF = {"headwise.core.map_kernel": "numba"}  # and of nothing else: imported where used


def imports(file):
    """(module, line, whether at the top of the file, names) of every import that runs."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield (
                "." * node.level + (node.module or ""),
                node.lineno,
                node in tree.body,
                [a.name for a in node.names],
            )
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, node in tree.body, []


def module_name(file, source):
    parts = file.relative_to(source.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def faults(source):
    """Every broken rule as a line of text."""
    for file in sorted(source.rglob("*.py")):
        where = file.relative_to(source)
        room = where.parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        for module, line, at_top, names in imports(file):
            outsider = module.split(".")[0]
            if outsider == "headwise":
                target = module.split(".")[1] if "." in module else "the package root"
                if target not in FLOORS[room] | {room} and not (
                    target == "the package root" and names == ["__version__"]
                ):
                    yield f"{where}:{line} {room} imports {target}"
                if module == f"headwise.{room}" and where.name != "cli.py":
                    yield f"{where}:{line} imports its own room's root, which makes a cycle"
                private = [name for name in names if name.startswith("_") and not name.startswith("__")]
                if private:
                    yield f"{where}:{line} imports the private name {private[0]}"
                submodules = {module, *(f"{module}.{name}" for name in names)}
                if at_top and submodules & MADE_OF.keys():
                    yield f"{where}:{line} imports at the top of the file what is made of a heavy package"
            elif module.startswith("."):
                yield f"{where}:{line} imports by a relative path"
            elif outsider in HEAVY and at_top and MADE_OF.get(module_name(file, source)) != outsider:
                yield f"{where}:{line} imports {outsider} at the top of the file"
            elif room in ONLY_OUTSIDER and outsider not in ONLY_OUTSIDER[room] | STANDARD:
                yield f"{where}:{line} {room} imports {outsider}"


STANDARD = {"__future__", "collections", "typing"}


def cycles(source):
    """Modules that import each other while they are loaded, as a list of names; empty if there are none."""
    graph = {module_name(file, source): set() for file in source.rglob("*.py")}
    for file in source.rglob("*.py"):
        for module, _, at_top, names in imports(file):
            if at_top and module.startswith("headwise"):
                submodules = {f"{module}.{name}" for name in names} & graph.keys()
                graph[module_name(file, source)] |= submodules or ({module} & graph.keys())
    while leaves := [name for name, needed in graph.items() if not needed]:
        for leaf in leaves:
            del graph[leaf]
        for needed in graph.values():
            needed.difference_update(leaves)
    return sorted(graph)


def test_every_import_keeps_to_its_floor():
    assert list(faults(SOURCE)) == []


def test_no_modules_import_each_other():
    assert cycles(SOURCE) == []


@pytest.mark.parametrize(
    ("path", "line", "fault"),
    [
        ("core/bad.py", "import headwise.layers", "core imports layers"),
        ("core/bad.py", "from headwise.experiments.comparison import compare", "core imports experiments"),
        ("layers/bad.py", "from headwise.check import causality", "layers imports check"),
        ("layers/bad.py", "from headwise.core.blocks import _blocks", "imports the private name _blocks"),
        ("layers/bad.py", "from headwise.layers import ALiBi", "imports its own room's root"),
        ("layers/bad.py", "from . import positions", "imports by a relative path"),
        ("core/bad.py", "from matplotlib import pyplot", "imports matplotlib at the top of the file"),
        ("core/bad.py", "import numba", "imports numba at the top of the file"),
        ("core/bad.py", "from headwise.core.map_kernel import read_rows", "made of a heavy package"),
        ("look/bad.py", "from headwise.core import map_kernel", "made of a heavy package"),
        ("core/map_kernel.py", "import matplotlib", "imports matplotlib at the top of the file"),
        ("reference.py", "import torch", "reference imports torch"),
        ("errors.py", "import torch", "errors imports torch"),
        ("look/bad.py", "def f():\n    from headwise.layers import ALiBi", "look imports layers"),
    ],
)
def test_a_planted_bad_import_is_found(tmp_path, path, line, fault):
    file = tmp_path / "headwise" / path
    file.parent.mkdir(parents=True)
    file.write_text(line + "\n")
    found = list(faults(tmp_path / "headwise"))
    assert len(found) == 1
    assert fault in found[0]


def test_a_planted_cycle_is_found(tmp_path):
    for name, other in (("a", "b"), ("b", "a")):
        file = tmp_path / "headwise" / "core" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"from headwise.core.{other} import thing\n")
    assert cycles(tmp_path / "headwise") == ["headwise.core.a", "headwise.core.b"]
