"""No encoding."""

from __future__ import annotations

from headwise.layers.positions.encoding import PositionalEncoding


class NoPosition(PositionalEncoding):
    """Attention as it is: permute the tokens and the outputs permute with them.

    Under a causal mask order still shows, since a token sees only those before it. Kazemnejad et al. 2023,
    arXiv 2305.19466.

    >>> NoPosition().acts_on
    ()
    """

    relative = True
    any_length = True
    cacheable = True
    source = "Kazemnejad et al. 2023, arXiv 2305.19466"
