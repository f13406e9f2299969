"""Every positional encoding, one file each."""

from headwise.layers.positions.alibi import ALiBi
from headwise.layers.positions.axial import AxialRotary
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.integers import Integers
from headwise.layers.positions.learned import Learned
from headwise.layers.positions.mixed import MixedRotary
from headwise.layers.positions.multimodal import MultimodalRotary
from headwise.layers.positions.none import NoPosition
from headwise.layers.positions.rotary import Rotary
from headwise.layers.positions.sinusoidal import Sinusoidal
from headwise.layers.positions.xpos import XPos

__all__ = [
    "ALiBi",
    "AxialRotary",
    "Integers",
    "Learned",
    "MixedRotary",
    "MultimodalRotary",
    "NoPosition",
    "PositionalEncoding",
    "Rotary",
    "Sinusoidal",
    "XPos",
]
