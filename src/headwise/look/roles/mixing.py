"""Finds the layer that mixes the heads of an attention layer: the first that is given their output."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headwise.look.calls.call import AttentionCall
from headwise.look.calls.watch import watch


@torch.no_grad()
def output_weights(model: nn.Module, run: Callable[[], object]) -> dict[str, Tensor]:
    """``W_o``, ``[model_dim, heads * value_dim]``, by the name of the attention layer, where it can be found.

    ``run`` runs the model once. A linear layer mixes heads if what it is given is, number for number, what
    an attention call gave out. What is normed or gated before it is mixed is not found.

    >>> from headwise.layers import MultiHeadAttention
    >>> layer = MultiHeadAttention(8, 2)
    >>> list(output_weights(layer, lambda: layer(torch.randn(1, 3, 8))))
    ['']
    """
    found: dict[str, Tensor] = {}
    waiting: dict[str, Tensor] = {}

    def took(call: AttentionCall) -> None:
        waiting.clear()  # layers mix their heads before the next attention begins
        waiting[call.layer] = call.output.transpose(1, 2).flatten(2).clone()
        weight = _of_torch(model, call)
        if weight is not None:
            found[call.layer] = weight

    def given(module: nn.Module, inputs: tuple[object, ...]) -> None:
        x = inputs[0] if inputs else None
        for layer, joined in waiting.items():
            if isinstance(x, Tensor) and _same_numbers(x, joined):
                found.setdefault(layer, matrices[module])

    matrices = {module: weight for module in model.modules() if (weight := _matrix_of(module)) is not None}
    handles = [module.register_forward_pre_hook(given) for module in matrices]
    try:
        with watch(model, took):
            run()
    finally:
        for handle in handles:
            handle.remove()
    return found


def _same_numbers(x: Tensor, joined: Tensor) -> bool:
    if x.numel() != joined.numel() or x.shape[-1] != joined.shape[-1]:
        return False
    return torch.equal(x.reshape(-1), joined.reshape(-1).to(x.dtype))


def _of_torch(model: nn.Module, call: AttentionCall) -> Tensor | None:
    """That of ``nn.MultiheadAttention``, which multiplies without calling the layer."""
    module = dict(model.named_modules()).get(call.module)
    return module.out_proj.weight.detach() if isinstance(module, nn.MultiheadAttention) else None


def _matrix_of(module: nn.Module) -> Tensor | None:
    """``[out, in]`` of a linear layer, also of transformers' Conv1D, which keeps it turned."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    if isinstance(module, nn.Linear):
        return weight.detach()
    return weight.detach().T if type(module).__name__ == "Conv1D" else None
