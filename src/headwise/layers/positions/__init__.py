"""Every positional encoding, one file each."""

from headwise.layers.positions.alibi import ALiBi
from headwise.layers.positions.axial import AxialRotary
from headwise.layers.positions.chain import Chain
from headwise.layers.positions.cope import CoPE
from headwise.layers.positions.deberta import DeBERTa
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.fire import Fire
from headwise.layers.positions.forget_gate import ForgetGate
from headwise.layers.positions.integers import Integers
from headwise.layers.positions.kerple import KerpleLog, KerplePower
from headwise.layers.positions.learned import Learned
from headwise.layers.positions.log_cpb import LogCPB
from headwise.layers.positions.mixed import MixedRotary
from headwise.layers.positions.multimodal import MultimodalRotary
from headwise.layers.positions.none import NoPosition
from headwise.layers.positions.rotary import Rotary
from headwise.layers.positions.sandwich import Sandwich
from headwise.layers.positions.shaw import Shaw
from headwise.layers.positions.sinusoidal import Sinusoidal
from headwise.layers.positions.swin import BEiTTable, SwinTable
from headwise.layers.positions.t5 import T5Bias
from headwise.layers.positions.transformer_xl import TransformerXL
from headwise.layers.positions.xpos import XPos

__all__ = [
    "ALiBi",
    "AxialRotary",
    "BEiTTable",
    "Chain",
    "CoPE",
    "DeBERTa",
    "Fire",
    "ForgetGate",
    "Integers",
    "KerpleLog",
    "KerplePower",
    "Learned",
    "LogCPB",
    "MixedRotary",
    "MultimodalRotary",
    "NoPosition",
    "PositionalEncoding",
    "Rotary",
    "Sandwich",
    "Shaw",
    "Sinusoidal",
    "SwinTable",
    "T5Bias",
    "TransformerXL",
    "XPos",
]
