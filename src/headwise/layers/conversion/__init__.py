"""Weights from elsewhere: PyTorch's own layers both ways, Hugging Face models, and the layouts in use."""

from headwise.layers.conversion.bert import bert, bert_attention
from headwise.layers.conversion.files import read_safetensors
from headwise.layers.conversion.fused import fuse_qkv, qkv_order, split_qkv
from headwise.layers.conversion.gpt2 import gpt2, gpt2_attention
from headwise.layers.conversion.grouped import blocks_to_tiles, sharing, tiles_to_blocks
from headwise.layers.conversion.hugging_face import from_hugging_face
from headwise.layers.conversion.llama import llama, llama_attention
from headwise.layers.conversion.mpnet import mpnet, mpnet_attention
from headwise.layers.conversion.t5 import t5, t5_attention

__all__ = [
    "bert",
    "bert_attention",
    "blocks_to_tiles",
    "from_hugging_face",
    "fuse_qkv",
    "gpt2",
    "gpt2_attention",
    "llama",
    "llama_attention",
    "mpnet",
    "mpnet_attention",
    "qkv_order",
    "read_safetensors",
    "sharing",
    "split_qkv",
    "t5",
    "t5_attention",
    "tiles_to_blocks",
]
