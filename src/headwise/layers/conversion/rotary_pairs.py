"""Rotary pairs side by side or half a head apart: which one it is, and weights changed to the other."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from headwise.core.errors import HeadwiseError
from headwise.core.shapes import check_positive
from headwise.layers.multi_head_attention import MultiHeadAttention
from headwise.layers.positions.pairs import Pairs, check_even, check_pairs
from headwise.layers.positions.turning import Turning
from headwise.layers.positions.xpos import XPos

_CLEAR, _CHANCE = 0.2, 4.0  # the least correlation, and how many standard deviations of chance it must be


def reorder_pairs(weight: Tensor, heads: int, *, to: Pairs, dims: int | None = None) -> Tensor:
    """Rows of a query or key projection from one layout of rotary pairs to the other.

    The same for its bias, and with ``heads=1`` for the weight of a norm over head_dim. Values and outputs do
    not turn and stay as they are. ``to="halves"`` takes rows stored as neighbours, ``to="neighbours"`` rows
    stored as halves. ``dims`` is how many of the first dimensions of a head turn, all of them unless given.
    Raises HeadwiseError if the rows do not divide.

    >>> reorder_pairs(torch.arange(8), heads=2, to="halves").tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    >>> reorder_pairs(torch.arange(6), heads=1, to="halves", dims=4).tolist()
    [0, 2, 1, 3, 4, 5]
    """
    check_pairs(to, who="reorder_pairs")
    head_dim = _head_dim(weight, heads, who="reorder_pairs")
    dims = head_dim if dims is None else dims
    check_even(dims, who="reorder_pairs", what="dims")
    _check_inside(dims, head_dim)
    shape = (dims // 2, 2) if to == "halves" else (2, dims // 2)
    order = torch.arange(head_dim)
    order[:dims] = order[:dims].view(shape).T.flatten()
    changed: Tensor = weight.view(heads, head_dim, *weight.shape[1:])[:, order].flatten(0, 1)
    return changed


def with_pairs(layer: MultiHeadAttention, to: Pairs) -> MultiHeadAttention:
    """A copy of a rotary layer that gives the same with its pairs in the other layout.

    Rows and biases of queries and keys change places, and so do the weights of their norms. Raises
    HeadwiseError for a layer that does not turn its queries and keys, and for norms that are not over
    head_dim.

    >>> from headwise.layers.positions import Rotary
    >>> layer = MultiHeadAttention(8, heads=2, position=Rotary(pairs="neighbours"))
    >>> other, x = with_pairs(layer, "halves"), torch.randn(1, 5, 8)
    >>> other.position.pairs, torch.allclose(other(x), layer(x), atol=1e-6)
    ('halves', True)
    """
    check_pairs(to, who="with_pairs")
    position = layer.position
    if not isinstance(position, (Turning, XPos)) or getattr(position, "within_axis", False):
        raise HeadwiseError(
            who="with_pairs",
            what="the layer's position",
            expected="an encoding that turns queries and keys in one of the two layouts, such as Rotary()",
            got=str(position),
            why="Others have no pairs, or pairs within the share of each axis",
            do="Leave the layer as it is",
        )
    twin, turning = copy.deepcopy((layer, position))  # together, so that it is the twin's own
    if position.pairs == to:
        return twin
    dims = getattr(position, "dims", None)
    turning.pairs = to
    for projection, heads in ((twin.query, twin.heads), (twin.key, twin.kv_heads)):
        _reorder(projection, heads, to, dims)
    if twin.head_norm is not None:
        for norm in (twin.head_norm.query, twin.head_norm.key):
            _reorder(norm, 1, to, dims)
    return twin


def pairs_of_function(turn: Callable[[Tensor, Tensor], Tensor], head_dim: int) -> Pairs:
    """The layout that some rotary code has: which dimension does dimension 0 turn into?

    ``turn`` takes a query ``[1, 1, 1, head_dim]`` and positions ``[1]`` and gives the query turned. Raises
    HeadwiseError if that is neither the neighbour nor half a head away.

    >>> from headwise.layers.positions import Rotary
    >>> pairs_of_function(Rotary(pairs="neighbours").turn, head_dim=8)
    'neighbours'
    """
    first = torch.zeros(1, 1, 1, head_dim)
    first[..., 0] = 1.0
    moved = turn(first, torch.ones(1, dtype=torch.long)).detach().flatten()
    touched = moved.abs().gt(1e-6).nonzero().flatten().tolist()
    if head_dim > 2 and touched == [0, 1]:
        return "neighbours"
    if head_dim > 2 and touched == [0, head_dim // 2]:
        return "halves"
    raise HeadwiseError(
        who="pairs_of_function",
        what="the turn of dimension 0",
        expected=f"into dimension 1 or {head_dim // 2}",
        got=f"one that moves dimensions {touched}",
        why="Those are the two layouts of pairs in use; a head of 2 dimensions has both",
        do="Pass a wider head, and a function that turns all of its dimensions at position 1",
    )


def pairs_of_weights(weights: Tensor | list[Tensor], heads: int) -> Pairs:
    """The layout that trained query or key projections have, guessed from the lengths of their rows.

    Training makes fast pairs and slow pairs differ in length. In "halves" both halves of a head run from fast
    to slow, so the logarithms of their lengths go together; in "neighbours" the first half is fast and the
    second slow, so they go against each other. The sign of their correlation, over all the heads and weights
    given, is the guess: 0.77 and -0.54 for the queries of SmolLM2. Raises HeadwiseError where it is small, as
    for weights that were not trained. `pairs_of_function` needs no guess where there is code to probe.

    >>> lengths = torch.linspace(1, 3, 8).repeat(2 * 64)  # each half of each of 64 heads from fast to slow
    >>> pairs_of_weights(torch.randn(64 * 16, 32) * lengths[:, None], heads=64)
    'halves'
    """
    given = weights if isinstance(weights, list) else [weights]
    lengths = torch.cat([_row_lengths(weight, heads) for weight in given])
    logs = lengths.clamp(min=1e-30).log()
    first, second = (logs - logs.mean(1, keepdim=True)).chunk(2, dim=1)
    together = float(cosine_similarity(first.flatten(), second.flatten(), dim=0))
    least = min(max(_CLEAR, _CHANCE / first.numel() ** 0.5), 0.99)
    if abs(together) > least:
        return "halves" if together > 0 else "neighbours"
    raise HeadwiseError(
        who="pairs_of_weights",
        what="the correlation of the two halves' row lengths",
        expected=f"above {least:.2f} or below -{least:.2f}",
        got=f"{together:.2f}",
        why="Weights show their layout only where training made fast and slow pairs differ",
        do="Pass the projections of all layers, or probe the code that turns them with pairs_of_function",
    )


def _row_lengths(weight: Tensor, heads: int) -> Tensor:
    head_dim = _head_dim(weight, heads, who="pairs_of_weights")
    check_even(head_dim, who="pairs_of_weights")
    lengths: Tensor = torch.linalg.vector_norm(weight.detach().double().flatten(1), dim=1)
    return lengths.view(heads, head_dim)


def _reorder(part: nn.Module, heads: int, to: Pairs, dims: int | None) -> None:
    for name, parameter in part.named_parameters(recurse=False):
        changed = reorder_pairs(parameter.detach(), heads, to=to, dims=dims)
        setattr(part, name, nn.Parameter(changed, requires_grad=parameter.requires_grad))


def _head_dim(weight: Tensor, heads: int, *, who: str) -> int:
    check_positive(heads, who=who, what="heads")
    if weight.dim() and weight.shape[0] and weight.shape[0] % heads == 0:
        return weight.shape[0] // heads
    raise HeadwiseError(
        who=who,
        what="the rows",
        expected=f"a multiple of heads={heads}",
        got=f"of shape {list(weight.shape)}",
        why="Each head has as many rows as it is wide",
        do="Pass a weight with outputs first; for keys count the key/value heads",
    )


def _check_inside(dims: int, head_dim: int) -> None:
    if 0 < dims <= head_dim:
        return
    raise HeadwiseError(
        who="reorder_pairs",
        what="dims",
        expected=f"from 2 to head_dim={head_dim}",
        got=str(dims),
        why="A head has no more dimensions",
        do="Leave it out where the whole head turns",
    )
