"""Every positional encoding, one file each."""

from headwise.layers.positions.alibi import ALiBi
from headwise.layers.positions.encoding import PositionalEncoding
from headwise.layers.positions.integers import Integers
from headwise.layers.positions.learned import Learned
from headwise.layers.positions.none import NoPosition
from headwise.layers.positions.rotary import Rotary
from headwise.layers.positions.sinusoidal import Sinusoidal

__all__ = ["ALiBi", "Integers", "Learned", "NoPosition", "PositionalEncoding", "Rotary", "Sinusoidal"]
