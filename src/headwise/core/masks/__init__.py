"""Which keys a query may see."""

from headwise.core.masks.mask import All, Fused, Mask
from headwise.core.masks.slots import Causal, Prefix, SlidingWindow
from headwise.core.masks.tokens import Documents, Explicit, Padding

__all__ = ["All", "Causal", "Documents", "Explicit", "Fused", "Mask", "Padding", "Prefix", "SlidingWindow"]
