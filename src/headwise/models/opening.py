"""Opens a model by what a person calls it: a short name, a folder, or module:callable."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from headwise.core import HeadwiseError
from headwise.models.dinov2 import open_dinov2
from headwise.models.folder import open_folder
from headwise.models.model import Model
from headwise.models.mpnet import open_mpnet
from headwise.models.packages import MINILM
from headwise.models.plain import open_plain
from headwise.models.rxnmapper import open_rxnmapper
from headwise.models.smollm2 import open_smollm2
from headwise.models.text import TextModel
from headwise.models.whisper import open_whisper

DEFAULT = "all-MiniLM-L6-v2"
ATTENTION = ("sdpa", "eager")
_MODULE_AND_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def open_model(name: str | None = None, *, attention: str = "sdpa") -> Model:
    """A trained model, by short name, local folder or ``module:callable``; all-MiniLM-L6-v2 without a name.

    Short names are models that installed packages carry. A folder is one that Hugging Face's
    ``save_pretrained`` wrote. ``module:callable`` is your own code that gives an ``nn.Module``: it is the one
    form that runs code. Weights come from safetensors, GGUF, or files that ``torch.load(weights_only=True)``
    reads, and nothing asks the network.

    ``attention`` is how Hugging Face models compute theirs: "sdpa" on fused kernels, where the model's family
    has them, or "eager", which lets the model itself give its weights. Raises HeadwiseError if there is no
    such model, if its package is missing, or if its files are damaged or pickled.

    >>> open_model("torch.nn:Identity").name
    'torch.nn:Identity'
    """
    _check_attention(attention)
    name = DEFAULT if name is None else str(name)
    if name in SHORT_NAMES:
        return SHORT_NAMES[name](attention)
    if Path(name).is_dir():
        return open_folder(Path(name), attention=attention)
    if _MODULE_AND_NAME.fullmatch(name):
        return open_plain(name)
    raise HeadwiseError(
        who="model",
        what="the model",
        expected=f"one of {', '.join(SHORT_NAMES)}, a local Hugging Face folder, or module:callable",
        got=repr(name),
        why="There is no such folder, and nothing is downloaded",
        do="Check the name or the path",
    )


def open_text_model(name: str | None = None, *, attention: str = "sdpa") -> TextModel:
    """The same, for a caller that has a text to read.

    Raises HeadwiseError also if the model reads no text, as a plain PyTorch model, which has no tokenizer.
    """
    model = open_model(name, attention=attention)
    if not isinstance(model, TextModel):
        raise HeadwiseError(
            who=model.name,
            what="the model",
            expected="one that reads text",
            got=f"{type(model.network).__name__}",
            why="A plain PyTorch model has no tokenizer, and others take sounds or pictures",
            do=f"Call its network with tensors, or use another model such as {DEFAULT}",
        )
    return model


def _open_minilm(attention: str) -> TextModel:
    return open_folder(MINILM.path("model", who=DEFAULT), attention=attention, name=DEFAULT)


SHORT_NAMES: dict[str, Callable[[str], Model]] = {
    DEFAULT: _open_minilm,
    "smollm2": open_smollm2,
    "rxnmapper": open_rxnmapper,
    "mpnet": open_mpnet,
    "whisper": open_whisper,
    "dinov2": open_dinov2,
}


def _check_attention(attention: str) -> None:
    if attention not in ATTENTION:
        raise HeadwiseError(
            who="model",
            what="attention",
            expected=f"one of {', '.join(ATTENTION)}",
            got=repr(attention),
            why="Other kernels show neither their weights nor their queries and keys",
            do="Leave it out for fused kernels",
        )
