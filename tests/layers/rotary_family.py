"""The rotary encodings beside plain `Rotary`, for the table of encodings: each scaling, each kind of axes."""

import torch

from headwise.layers import (
    AxialRotary,
    DynamicNTK,
    Llama3,
    LongRoPE,
    MixedRotary,
    MultimodalRotary,
    NTKAware,
    PositionalEncoding,
    PositionInterpolation,
    Proportional,
    Rotary,
    XPos,
    YaRN,
)


class AlongLine(PositionalEncoding):
    """An encoding of several axes on a line through them, so that one number says where a token stands."""

    acts_on = ("queries and keys",)

    def __init__(self, encoding, direction):
        super().__init__()
        self.encoding, self.direction = encoding, direction
        self.relative, self.any_length = encoding.relative, encoding.any_length
        self.cacheable, self.source = encoding.cacheable, encoding.source

    def rotate(self, q, k, query_positions, key_positions):
        direction = torch.tensor(self.direction, device=query_positions.device)
        same = key_positions is query_positions
        at_queries = query_positions[..., None] * direction
        return self.encoding.rotate(
            q, k, at_queries, at_queries if same else key_positions[..., None] * direction
        )


def longrope(head_dim):
    pairs = head_dim // 2
    return LongRoPE([1.0 + 0.1 * i for i in range(pairs)], [1.5 + i for i in range(pairs)], 12, factor=4.0)


def axial(model_dim, heads, pairs):
    head_dim = model_dim // heads  # with one pair only there is one axis to turn by
    return AlongLine(
        AxialRotary(axes=2 if head_dim % 4 == 0 else 1, pairs=pairs), [2, 1][: 2 - head_dim % 4 // 2]
    )


def sections(head_dim):
    return {1: (1,), 2: (1, 1), 4: (2, 1, 1)}[head_dim // 2]


def multimodal(model_dim, heads, **how):
    of_pairs = sections(model_dim // heads)
    return AlongLine(MultimodalRotary(of_pairs, **how), [3, 2, 1][: len(of_pairs)])


def proportional(head_dim):
    return Proportional(1.0 if head_dim == 2 else 0.5)


# name: (model_dim, heads) -> the encoding
ROTARY_FAMILY = {
    "rotary, two dimensions": lambda model_dim, heads: Rotary(pairs="neighbours", dims=2),
    "rotary, interpolated": lambda model_dim, heads: Rotary(scaling=PositionInterpolation(4.0)),
    "rotary, NTK": lambda model_dim, heads: Rotary(scaling=NTKAware(4.0)),
    "rotary, dynamic NTK": lambda model_dim, heads: Rotary(scaling=DynamicNTK(2.0, 4), length=16),
    "rotary, YaRN": lambda model_dim, heads: Rotary(scaling=YaRN(4.0, 64)),
    "rotary, LongRoPE": lambda model_dim, heads: Rotary(
        scaling=longrope(model_dim // heads), length="positions"
    ),
    "rotary, Llama 3": lambda model_dim, heads: Rotary(scaling=Llama3(8.0, 16)),
    "rotary, proportional": lambda model_dim, heads: Rotary(scaling=proportional(model_dim // heads)),
    "xpos": lambda model_dim, heads: XPos(centre=2000),
    "axial": lambda model_dim, heads: axial(model_dim, heads, "axis halves"),
    "mixed": lambda model_dim, heads: AlongLine(MixedRotary(1, model_dim // heads), [2, 1]),
    "multimodal": lambda model_dim, heads: multimodal(model_dim, heads, arrangement="interleaved"),
}
