"""Every positional encoding, one file each."""

from headwise.layers.positions.alibi import ALiBi
from headwise.layers.positions.chain import Chain
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.fire import Fire
from headwise.layers.positions.integers import Integers
from headwise.layers.positions.kerple import KerpleLog, KerplePower
from headwise.layers.positions.learned import Learned
from headwise.layers.positions.log_cpb import LogCPB
from headwise.layers.positions.none import NoPosition
from headwise.layers.positions.rotary import Rotary
from headwise.layers.positions.sandwich import Sandwich
from headwise.layers.positions.sinusoidal import Sinusoidal
from headwise.layers.positions.swin import BEiTTable, SwinTable
from headwise.layers.positions.t5 import T5Bias

__all__ = [
    "ALiBi",
    "BEiTTable",
    "Chain",
    "Fire",
    "Integers",
    "KerpleLog",
    "KerplePower",
    "Learned",
    "LogCPB",
    "NoPosition",
    "PositionalEncoding",
    "Rotary",
    "Sandwich",
    "Sinusoidal",
    "SwinTable",
    "T5Bias",
]
