"""Weights from elsewhere: PyTorch's own layers both ways, Hugging Face models, and the layouts in use."""

from headwise.layers.conversion.bert import bert, bert_attention
from headwise.layers.conversion.files import read_safetensors
from headwise.layers.conversion.fused import fuse_qkv, qkv_order, split_qkv
from headwise.layers.conversion.gpt2 import gpt2, gpt2_attention
from headwise.layers.conversion.grouped import blocks_to_tiles, sharing, tiles_to_blocks
from headwise.layers.conversion.hugging_face import from_hugging_face
from headwise.layers.conversion.llama import llama, llama_attention
from headwise.layers.conversion.mpnet import mpnet, mpnet_attention
from headwise.layers.conversion.rotary_pairs import (
    pairs_of_function,
    pairs_of_weights,
    reorder_pairs,
    with_pairs,
)
from headwise.layers.conversion.t5 import t5, t5_attention
from headwise.layers.conversion.to_torch_layers import block_to_torch, decoder_to_torch, encoder_to_torch
from headwise.layers.conversion.torch_attention import attention_from_torch, attention_to_torch
from headwise.layers.conversion.torch_layers import block_from_torch, decoder_from_torch, encoder_from_torch

__all__ = [
    "attention_from_torch",
    "attention_to_torch",
    "bert",
    "bert_attention",
    "block_from_torch",
    "block_to_torch",
    "blocks_to_tiles",
    "decoder_from_torch",
    "decoder_to_torch",
    "encoder_from_torch",
    "encoder_to_torch",
    "from_hugging_face",
    "fuse_qkv",
    "gpt2",
    "gpt2_attention",
    "llama",
    "llama_attention",
    "mpnet",
    "mpnet_attention",
    "pairs_of_function",
    "pairs_of_weights",
    "qkv_order",
    "read_safetensors",
    "reorder_pairs",
    "sharing",
    "split_qkv",
    "t5",
    "t5_attention",
    "tiles_to_blocks",
    "with_pairs",
]
