"""Look inside: see and record the attention of any PyTorch model, while it computes what it always does."""

from headwise.look.ablate import ablate
from headwise.look.call import AttentionCall
from headwise.look.coverage import Coverage
from headwise.look.head import Head
from headwise.look.head_importance import HeadImportance
from headwise.look.importance import importance
from headwise.look.kept import InMemory, OnDisk
from headwise.look.record import record
from headwise.look.recording import Recording
from headwise.look.recording_file import load, save
from headwise.look.replacement import Mean, Replacement, Uniform, Zero
from headwise.look.rollout import rollout
from headwise.look.watch import watch

__all__ = [
    "AttentionCall",
    "Coverage",
    "Head",
    "HeadImportance",
    "InMemory",
    "Mean",
    "OnDisk",
    "Recording",
    "Replacement",
    "Uniform",
    "Zero",
    "ablate",
    "importance",
    "load",
    "record",
    "rollout",
    "save",
    "watch",
]
