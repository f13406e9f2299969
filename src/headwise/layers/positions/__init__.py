"""Every positional encoding, one file each."""

from headwise.layers.positions.alibi import ALiBi
from headwise.layers.positions.cope import CoPE
from headwise.layers.positions.deberta import DeBERTa
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.forget_gate import ForgetGate
from headwise.layers.positions.integers import Integers
from headwise.layers.positions.learned import Learned
from headwise.layers.positions.none import NoPosition
from headwise.layers.positions.rotary import Rotary
from headwise.layers.positions.shaw import Shaw
from headwise.layers.positions.sinusoidal import Sinusoidal
from headwise.layers.positions.transformer_xl import TransformerXL

__all__ = [
    "ALiBi",
    "CoPE",
    "DeBERTa",
    "ForgetGate",
    "Integers",
    "Learned",
    "NoPosition",
    "PositionalEncoding",
    "Rotary",
    "Shaw",
    "Sinusoidal",
    "TransformerXL",
]
