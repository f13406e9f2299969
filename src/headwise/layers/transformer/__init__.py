"""The small Transformer: MLPs, blocks, stacks, models of tokens, and text written by one."""

from headwise.layers.transformer.block import Block, BlockCache, make_blocks
from headwise.layers.transformer.generate import generate
from headwise.layers.transformer.mlp import MLP, GatedMLP
from headwise.layers.transformer.picking import Greedy, Sample
from headwise.layers.transformer.residual import PostNorm, PreNorm, Residual
from headwise.layers.transformer.sequence_to_sequence import Transformer
from headwise.layers.transformer.stack import Decoder, Encoder, Stack
from headwise.layers.transformer.token_embedding import TokenEmbedding
from headwise.layers.transformer.token_model import LanguageModel, TokenModel

__all__ = [
    "MLP",
    "Block",
    "BlockCache",
    "Decoder",
    "Encoder",
    "GatedMLP",
    "Greedy",
    "LanguageModel",
    "PostNorm",
    "PreNorm",
    "Residual",
    "Sample",
    "Stack",
    "TokenEmbedding",
    "TokenModel",
    "Transformer",
    "generate",
    "make_blocks",
]
