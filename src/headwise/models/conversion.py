"""An opened model as headwise's own layers, its weights with it."""

from __future__ import annotations

from torch import nn

from headwise.layers.conversion import from_hugging_face
from headwise.models.model import Model


def as_headwise(model: Model) -> nn.Module:
    """The model's network built from headwise's layers: it gives the same hidden states or logits.

    For the families that `from_hugging_face` knows, MiniLM, MPNet and SmolLM2 among the models with a short
    name. The weights are copied. Raises HeadwiseError for other families, and for plain PyTorch models.
    """
    return from_hugging_face(model.network.state_dict(), getattr(model.network, "config", None))
