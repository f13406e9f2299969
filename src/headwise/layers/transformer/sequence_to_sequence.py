"""An encoder that reads one text and a decoder that writes another."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headwise.core import Padding
from headwise.layers.resetting import reset_children
from headwise.layers.transformer.token_model import LanguageModel, TokenModel


class Transformer(nn.Module):
    """``decoder(target, memory=encoder(source))``: the scores of each next token of the target.

    Vaswani et al. 2017, arXiv 1706.03762, figure 1. One `TokenEmbedding` given to both is shared by both.
    Raises what its parts raise.

    >>> from functools import partial
    >>> from headwise.layers import Decoder, Encoder, MultiHeadAttention, Sinusoidal, make_blocks
    >>> from headwise.layers import TokenEmbedding
    >>> attention = partial(MultiHeadAttention, heads=2)
    >>> words = TokenEmbedding(100, 8, position=Sinusoidal(), scale=8**0.5, std=8**-0.5)
    >>> encoder = Encoder(make_blocks(2, 8, attention=attention), norm=torch.nn.LayerNorm(8))
    >>> decoder = Decoder(make_blocks(2, 8, attention=attention, cross=attention), norm=torch.nn.LayerNorm(8))
    >>> model = Transformer(TokenModel(words, encoder), LanguageModel(words, decoder))
    >>> model(torch.tensor([[5, 17, 3, 2]]), torch.tensor([[1, 9]])).shape
    torch.Size([1, 2, 100])
    """

    def __init__(self, encoder: TokenModel, decoder: LanguageModel) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def reset_parameters(self) -> None:
        """Draw every weight anew."""
        reset_children(self)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        *,
        keep: Bool[Tensor, "batch source"] | None = None,
        target_keep: Bool[Tensor, "batch target"] | None = None,
    ) -> Float[Tensor, "batch target vocabulary"]:
        """``keep`` is True for the real tokens of the source, ``target_keep`` for those of the target."""
        memory = self.encoder(source, keep=keep)
        padding = None if keep is None else Padding(keep)
        scores: Tensor = self.decoder(
            target,
            memory,
            keep=target_keep,
            memory_mask=padding,
            memory_positions=None if padding is None else padding.positions(),
        )
        return scores
