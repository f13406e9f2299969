"""Opens a local Hugging Face folder: safetensors only, none of its code, nothing from the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from headwise.core import HeadwiseError
from headwise.models.packages import need_transformers
from headwise.models.text import TextModel

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def open_folder(folder: Path, *, attention: str, name: str | None = None) -> TextModel:
    """The text model of a local Hugging Face folder, called by the folder's name unless it is given another.

    Weights come from safetensors files only, and no code of the folder runs. ``attention="sdpa"`` is eager
    where the model's family has no fused attention. Raises HeadwiseError if the folder holds no model, holds
    pickled weights, or lacks some of the weights.
    """
    _check_folder(folder)
    transformers = need_transformers()
    with _quiet():
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            network, report = _auto_class(folder, transformers).from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                attn_implementation=None if attention == "sdpa" else attention,  # None: fused where it exists
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
    return TextModel(name or folder.resolve().name, network.eval(), tokenizer)


def _auto_class(folder: Path, transformers: Any) -> Any:  # noqa: ANN401
    """A causal language model comes with the head that predicts the next token, if the folder has one."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    causal = set(config.architectures or ()) & set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    return transformers.AutoModelForCausalLM if causal else transformers.AutoModel


def _check_folder(folder: Path) -> None:
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


def _not_a_model(folder: Path, why: str) -> HeadwiseError:
    return HeadwiseError(
        who="model",
        what="the folder",
        expected="a Hugging Face text model with config.json, a tokenizer and .safetensors weights",
        got=repr(str(folder)),
        why=why[0].upper() + why[1:],
        do="Save one there with model.save_pretrained and tokenizer.save_pretrained",
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
