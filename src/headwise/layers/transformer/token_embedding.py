"""Tokens become vectors: what they are, of which segment, and where they stand."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.core import HeadwiseError
from headwise.core.inputs import check_dropout
from headwise.core.shapes import check_positions, check_positive, described
from headwise.layers.positions import PositionalEncoding
from headwise.layers.positions.encoding import check_encoding

WHO = "TokenEmbedding"


class TokenEmbedding(nn.Module):
    """``dropout(norm(position.embed(scale * token[t] + segment[s], p)))``, each part but the first if given.

    Devlin et al. 2018, arXiv 1810.04805, figure 2, with all of them. Tables are drawn from a normal
    distribution of deviation ``std``.

    Args:
        vocabulary: number of different tokens.
        model_dim: width of a vector.
        position: an encoding that acts on embeddings, such as `Learned` or `Sinusoidal`. The others belong
            to the attention layers.
        segments: number of segment types, with a table of their own; 0 for none.
        norm: such as ``nn.LayerNorm(model_dim)``.
        dropout: share of the embedding dropped in training.
        scale: what the tokens' vectors are multiplied with. `Sinusoidal` has entries of size 1, which drown
            those of size 0.02: give ``scale=model_dim**0.5, std=model_dim**-0.5`` beside it, as Vaswani et
            al. 2017 do.
        std: 0.02 as in BERT and GPT-2.

    Raises HeadwiseError for a size below 1, a position that does not act on embeddings, tokens or segments
    that are not integers or have no row, and segments without a table.

    >>> from headwise.layers import Learned
    >>> embedding = TokenEmbedding(100, 8, position=Learned(16, 8), segments=2, norm=torch.nn.LayerNorm(8))
    >>> embedding(torch.tensor([[5, 17, 3]]), segments=torch.tensor([[0, 0, 1]])).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        vocabulary: int,
        model_dim: int,
        *,
        position: PositionalEncoding | None = None,
        segments: int = 0,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
        scale: float = 1.0,
        std: float = 0.02,
    ) -> None:
        super().__init__()
        check_positive(vocabulary, who=WHO, what="vocabulary")
        check_positive(model_dim, who=WHO, what="model_dim")
        if segments:
            check_positive(segments, who=WHO, what="segments")
        if position is not None:
            _check_acts_on_embeddings(position)
        check_dropout(dropout, who=WHO)
        self.scale, self.std = scale, std
        self.token = nn.Embedding(vocabulary, model_dim)
        self.segment = nn.Embedding(segments, model_dim) if segments else None
        self.position, self.norm, self.dropout = position, norm, nn.Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the tables anew, and reset the encoding and the norm."""
        for table in (self.token, self.segment):
            if table is not None:
                nn.init.normal_(table.weight, std=self.std)
        for part in (self.position, self.norm):
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        *,
        segments: Int[Tensor, "batch length"] | None = None,
        positions: Int[Tensor, "*batch length"] | None = None,
    ) -> Float[Tensor, "batch length model_dim"]:
        """Positions count from 0 unless given; all tokens are of segment 0 unless given."""
        _check_rows(tokens, self.token, "tokens")
        x = self.token(tokens)
        if self.scale != 1.0:
            x = x * self.scale
        if self.segment is None:
            _refuse_segments(segments)
        else:
            segments = torch.zeros_like(tokens) if segments is None else segments
            _check_rows(segments, self.segment, "segments")
            x = x + self.segment(segments)
        if self.position is not None:
            batch, length = tokens.shape
            if positions is None:
                positions = torch.arange(length, device=tokens.device)
            check_positions(positions, length=length, batch=batch, who=WHO)
            x = self.position.embed(x, positions)
        x = x if self.norm is None else self.norm(x)
        out: Tensor = self.dropout(x)
        return out


def _check_acts_on_embeddings(position: object) -> None:
    check_encoding(position, who=WHO)
    if isinstance(position, PositionalEncoding) and "embeddings" in position.acts_on:
        return
    raise HeadwiseError(
        who=WHO,
        what="position",
        expected="an encoding that acts on embeddings",
        got=type(position).__name__,
        why="Here it would have no effect, because it acts inside attention",
        do="Give it to the attention layers, MultiHeadAttention(..., position=...)",
    )


def _check_rows(indices: Tensor, table: nn.Embedding, what: str) -> None:
    whole = isinstance(indices, Tensor) and indices.dtype in (torch.int64, torch.int32)
    if not whole or indices.dim() != 2:
        raise HeadwiseError(
            who=WHO,
            what=what,
            expected="integers [batch length]",
            got=described(indices),
            why="Each number is a row of a table",
            do="Pass a tensor such as torch.tensor([[5, 17, 3]])",
        )
    if torch.compiler.is_compiling() or indices.is_meta or not indices.numel():
        return
    low, high = indices.aminmax()
    if low < 0 or high >= table.num_embeddings:
        raise HeadwiseError(
            who=WHO,
            what=what,
            expected=f"from 0 to {table.num_embeddings - 1}",
            got=f"{int(low)} to {int(high)}",
            why="Each number needs a row of the table",
            do="Use the tokenizer this model was made for, and no negative number for padding",
        )


def _refuse_segments(segments: object) -> None:
    if segments is None:
        return
    raise HeadwiseError(
        who=WHO,
        what="segments",
        expected="None without a table for them",
        got=described(segments),
        why="They would change nothing",
        do="Build it with segments=2, or leave them out",
    )
