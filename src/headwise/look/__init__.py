"""Look inside: see the attention calls of any PyTorch model, while it computes what it always does."""

from headwise.look.call import AttentionCall
from headwise.look.coverage import Coverage
from headwise.look.watch import watch

__all__ = ["AttentionCall", "Coverage", "watch"]
