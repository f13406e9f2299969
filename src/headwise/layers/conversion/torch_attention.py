"""PyTorch's own attention layer to ours, and ours to PyTorch's."""

from __future__ import annotations

from torch import Tensor, nn

from headwise.core.errors import HeadwiseError
from headwise.layers.conversion.filling import filled
from headwise.layers.conversion.fused import fuse_qkv, split_qkv
from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.positions import NoPosition

_NAMES = {"q": "query", "k": "key", "v": "value", "out_proj": "output"}


def attention_from_torch(layer: nn.MultiheadAttention) -> MultiHeadAttention:
    """Our layer with a copy of the weights of ``nn.MultiheadAttention``.

    It takes the batch first, whatever ``batch_first`` says, and names what is kept where PyTorch's boolean
    masks name what is hidden. ``add_zero_attn`` becomes ``sinks=0.0``: a key of zeros is a logit of 0.

    Raises HeadwiseError for keys and values of different widths, and for ``add_bias_kv``.

    >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(2, 5, 8)
    >>> torch.allclose(attention_from_torch(theirs)(x), theirs(x, x, x)[0], atol=1e-6)
    True
    """
    _check_torch(layer)
    weights = _apart(layer)

    def build() -> MultiHeadAttention:
        return MultiHeadAttention(
            layer.embed_dim,
            layer.num_heads,
            memory_dim=layer.kdim,
            sinks=0.0 if layer.add_zero_attn else None,
            bias=layer.in_proj_bias is not None,
            dropout=layer.dropout,
        )

    return filled(build, weights, _NAMES, who="attention_from_torch").train(layer.training)


def attention_to_torch(layer: MultiHeadAttention, *, batch_first: bool = True) -> nn.MultiheadAttention:
    """``nn.MultiheadAttention`` with a copy of our weights.

    Raises HeadwiseError for whatever PyTorch's layer cannot do: positions, a mask of its own, shared
    key/value heads, heads of another width, head norms, a softcap, a gate, sinks other than 0.

    >>> ours = MultiHeadAttention(8, heads=2)
    >>> x = torch.randn(2, 5, 8)
    >>> torch.allclose(attention_to_torch(ours)(x, x, x)[0], ours(x), atol=1e-6)
    True
    """
    for option, found in _beyond_torch(layer).items():
        raise HeadwiseError(
            who="attention_to_torch",
            what=option,
            expected="what nn.MultiheadAttention can do",
            got=found,
            why="Without it the outputs would be others",
            do="Keep headwise's layer here",
        )
    weight = layer.query.weight
    theirs = nn.MultiheadAttention(
        layer.model_dim,
        layer.heads,
        dropout=layer.dropout,
        bias=layer.query.bias is not None,
        add_zero_attn=layer.sinks is not None,
        kdim=layer.memory_dim,
        vdim=layer.memory_dim,
        batch_first=batch_first,
        device="meta",
        dtype=weight.dtype,
    ).to_empty(device=weight.device)
    theirs.load_state_dict(_together(layer, fused=theirs.in_proj_weight is not None))
    return theirs.train(layer.training)


def _apart(layer: nn.MultiheadAttention) -> dict[str, Tensor]:
    """Its state dict with a name for each projection."""
    state = layer.state_dict()
    if "in_proj_weight" in state:
        parts = split_qkv(state.pop("in_proj_weight"), layer.num_heads)
    else:
        parts = tuple(state.pop(f"{part}_proj_weight") for part in "qkv")
    state |= {f"{part}.weight": weight for part, weight in zip("qkv", parts, strict=True)}
    if "in_proj_bias" in state:
        biases = split_qkv(state.pop("in_proj_bias"), layer.num_heads)
        state |= {f"{part}.bias": bias for part, bias in zip("qkv", biases, strict=True)}
    return state


def _together(layer: MultiHeadAttention, *, fused: bool) -> dict[str, Tensor]:
    projections = (layer.query, layer.key, layer.value)
    q, k, v = (projection.weight.detach() for projection in projections)
    state = {"out_proj.weight": layer.output.weight.detach()}
    if fused:
        state["in_proj_weight"] = fuse_qkv(q, k, v, layer.heads)
    else:
        state |= {f"{part}_proj_weight": weight for part, weight in zip("qkv", (q, k, v), strict=True)}
    if layer.query.bias is not None:
        q, k, v = (projection.bias.detach() for projection in projections)
        state |= {"in_proj_bias": fuse_qkv(q, k, v, layer.heads), "out_proj.bias": layer.output.bias.detach()}
    return state


def _check_torch(layer: nn.MultiheadAttention) -> None:
    refused = {
        "kdim and vdim": (layer.kdim != layer.vdim, f"{layer.kdim} and {layer.vdim}"),
        "add_bias_kv": (layer.bias_k is not None, "True"),
    }
    expected = {"kdim and vdim": "equal", "add_bias_kv": "False"}
    why = {
        "kdim and vdim": "Keys and values are projected from one memory",
        "add_bias_kv": "It adds a trained key and value, which no part of headwise does",
    }
    for what, (is_so, found) in refused.items():
        if is_so:
            raise HeadwiseError(
                who="attention_from_torch",
                what=what,
                expected=expected[what],
                got=found,
                why=why[what],
                do="Keep PyTorch's layer here",
            )


def _beyond_torch(layer: MultiHeadAttention) -> dict[str, str]:
    """The options that are on and that PyTorch's layer has not, with what they are."""
    width = layer.model_dim // layer.heads
    found = {
        "position": (type(layer.position) is not NoPosition, type(layer.position).__name__),
        "mask": (layer.mask is not None, str(layer.mask)),
        "kv_heads": (layer.kv_heads != layer.heads, f"{layer.kv_heads} for {layer.heads} heads"),
        "head_dim": (layer.head_dim * layer.heads != layer.model_dim, str(layer.head_dim)),
        "value_dim": (layer.value_dim != layer.head_dim, str(layer.value_dim)),
        "scale": (layer.scale != width**-0.5, str(layer.scale)),
        "softcap": (layer.softcap is not None, str(layer.softcap)),
        "head_norm": (layer.head_norm is not None, type(layer.head_norm).__name__),
        "gate": (layer.gate is not None, type(layer.gate).__name__),
        "sinks": (layer.sinks is not None and layer.sinks != 0.0, str(layer.sinks)),
        "output_bias": (
            (layer.query.bias is None) != (layer.output.bias is None),
            str(layer.output.bias is not None),
        ),
    }
    return {option: text for option, (is_on, text) in found.items() if is_on}
