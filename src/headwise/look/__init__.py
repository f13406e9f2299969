"""Look inside: see and record the attention of any PyTorch model, while it computes what it always does."""

from headwise.look.calls.call import AttentionCall
from headwise.look.calls.coverage import Coverage
from headwise.look.calls.watch import watch
from headwise.look.recordings.kept import InMemory, OnDisk
from headwise.look.recordings.record import record
from headwise.look.recordings.recording import Recording
from headwise.look.recordings.recording_file import load, save
from headwise.look.recordings.rollout import rollout
from headwise.look.removal.ablate import ablate
from headwise.look.removal.head import Head
from headwise.look.removal.head_importance import HeadImportance
from headwise.look.removal.importance import importance
from headwise.look.removal.replacement import Mean, Replacement, Uniform, Zero

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
