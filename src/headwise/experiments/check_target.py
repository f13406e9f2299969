"""Opens what ``headwise check`` is asked to check. This runs the code it is pointed at."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from headwise.check import Checked, layer, model
from headwise.check.subjects.signature import Thing
from headwise.core import HeadwiseError

_BUILD = "Name a function without arguments that builds it"
_FORMS = "package.module:factory, path/to/file.py:Class, a local Hugging Face folder, or config:NAME"


class Target(NamedTuple):
    """What is checked, and what makes another one where that is known."""

    thing: Thing
    make: Callable[[], Any] | None


def check_target(target: str, *, expect: str | Iterable[str] = (), only: str | Iterable[str] = ()) -> Checked:
    """Every property of what the target names, in this process.

    Raises HeadwiseError, in one line, for a target that cannot be opened or called.

    >>> checked = check_target("torch.nn.functional:scaled_dot_product_attention", only="heads")
    >>> checked.passed
    True
    """
    opened = open_target(target)
    check = model if _is_model(opened.thing) else layer
    return check(opened.thing, expect=expect, only=only, make=opened.make)


def open_target(target: str) -> Target:
    """The layer, function, model or configuration that a target names."""
    if target.startswith("config:"):
        return Target(_named_config(target), None)
    if Path(target).is_dir():
        return Target(_from_folder(Path(target)), None)
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise _bad(target, _FORMS, repr(target), "There is no such folder, and no colon names what to check")
    module = _from_file(target, Path(place)) if place.endswith(".py") else _from_module(target, place)
    return _built(target, _attribute(target, module, name))


def _is_model(thing: Thing) -> bool:
    return any(each.__module__.startswith("transformers") for each in type(thing).__mro__)


def _named_config(target: str) -> Thing:
    name = target.removeprefix("config:")
    _need_transformers(target)
    from transformers import AutoConfig

    try:
        return AutoConfig.for_model(name)
    except Exception as error:
        expected = "config: and an architecture that transformers knows, such as config:llama"
        raise _bad(target, expected, repr(name), _reason(error)) from error


def _need_transformers(target: str) -> None:
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        why = "Configurations and folders are Hugging Face's"
        raise _bad(target, "checked with transformers installed", "no such package", why) from error


def _from_folder(folder: Path) -> Thing:
    _need_transformers(str(folder))
    from transformers import AutoConfig, AutoModel
    from transformers.models.auto import modeling_auto as auto

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        if not any(folder.glob("*.safetensors")):
            return config
        kind = config.model_type
        causal = kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and getattr(config, "is_decoder", True)
        opener = auto.AutoModelForCausalLM if causal else AutoModel
        return opener.from_pretrained(folder, local_files_only=True, use_safetensors=True)
    except Exception as error:
        raise _bad(str(folder), "a folder that save_pretrained wrote", "a folder", _reason(error)) from error


def _from_module(target: str, name: str) -> Thing:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except BaseException as error:
        raise _bad(target, "code that can be imported", f"{name!r}", _reason(error)) from error


def _from_file(target: str, path: Path) -> Thing:
    if not path.is_file():
        raise _bad(target, "a Python file", repr(str(path)), "There is no such file")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        raise _bad(target, "code that can be imported", repr(str(path)), _reason(error)) from error
    return module


def _attribute(target: str, module: Thing, name: str) -> Thing:
    try:
        return attrgetter(name)(module)
    except AttributeError as error:
        offered = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        has = f"It has {', '.join(offered[:8])}" if offered else "It has nothing that can be called"
        raise _bad(target, "a name in that module", repr(name), has) from error


def _built(target: str, found: Thing) -> Target:
    """A class or a function without required arguments is called; a function with some is checked itself."""
    if isinstance(found, nn.Module) or not callable(found):
        return Target(_callable(target, found), None)
    needed = _required(found)
    if needed and not inspect.isclass(found):
        return Target(found, None)
    if needed:
        expected = "a class that is made without arguments"
        raise _bad(
            target, expected, f"one that needs {', '.join(needed)}", "Nothing says which to pass", _BUILD
        )
    try:
        made = found()
    except BaseException as error:
        raise _bad(
            target, "a factory that works without arguments", "one that fails", _reason(error), _BUILD
        ) from error
    return Target(_callable(target, made), found)


def _callable(target: str, thing: Thing) -> Thing:
    if callable(thing) or _is_model(thing):
        return thing
    raise _bad(target, "a module or a function", type(thing).__name__, "It is called with sequences")


def _required(found: Thing) -> list[str]:
    try:
        known = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ["arguments"]
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in known if each.default is each.empty and each.kind not in kinds]


def _reason(error: BaseException) -> str:
    words = " ".join(str(error).split()).rstrip(".") or "without a message"
    return f"It raises {type(error).__name__}: {words[:200]}"


def _bad(target: str, expected: str, got: str, why: str, do: str = f"Name {_FORMS}") -> HeadwiseError:
    return HeadwiseError(
        who="check",
        what=f"the target {target!r}",
        expected=expected,
        got=got,
        why=why,
        do=do,
    )
