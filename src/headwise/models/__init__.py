"""Opens trained models: by short name from installed packages, from folders, from your own code."""

from headwise.models.conversion import as_headwise
from headwise.models.model import Model
from headwise.models.opening import DEFAULT, open_model, open_text_model
from headwise.models.text import EncodedText, Reading, TextModel

__all__ = [
    "DEFAULT",
    "EncodedText",
    "Model",
    "Reading",
    "TextModel",
    "as_headwise",
    "open_model",
    "open_text_model",
]
