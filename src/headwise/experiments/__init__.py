"""The tutorials' questions, asked of real layers; each answer shows itself, gives JSON and a picture."""

from headwise.experiments.encoding import examine_encoding
from headwise.experiments.equivariance import permute_and_compare
from headwise.experiments.heads import compare_head_counts

__all__ = ["compare_head_counts", "examine_encoding", "permute_and_compare"]
