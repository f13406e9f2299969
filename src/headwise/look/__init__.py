"""Look inside: see the attention calls of any PyTorch model, while it computes what it always does."""

from headwise.look.ablate import ablate
from headwise.look.call import AttentionCall
from headwise.look.coverage import Coverage
from headwise.look.head import Head
from headwise.look.head_importance import HeadImportance
from headwise.look.importance import importance
from headwise.look.replacement import Mean, Replacement, Uniform, Zero
from headwise.look.watch import watch

__all__ = [
    "AttentionCall",
    "Coverage",
    "Head",
    "HeadImportance",
    "Mean",
    "Replacement",
    "Uniform",
    "Zero",
    "ablate",
    "importance",
    "watch",
]
