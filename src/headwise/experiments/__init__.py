"""The tutorials' questions, asked of real layers and models; each answer shows itself."""

from headwise.experiments.compare import Comparison, compare
from headwise.experiments.encoding import examine_encoding, list_encodings
from headwise.experiments.equivariance import permute_and_compare
from headwise.experiments.heads import compare_head_counts
from headwise.experiments.inside import Ablation, Inspection, Window, ablate_heads, inspect_text, zoom
from headwise.experiments.model_comparison import ModelComparison, compare_in_model
from headwise.experiments.result import Result
from headwise.experiments.word_attention import WordAttention, attention_by_word

__all__ = [
    "Ablation",
    "Comparison",
    "Inspection",
    "ModelComparison",
    "Result",
    "Window",
    "WordAttention",
    "ablate_heads",
    "attention_by_word",
    "compare",
    "compare_head_counts",
    "compare_in_model",
    "examine_encoding",
    "inspect_text",
    "list_encodings",
    "permute_and_compare",
    "zoom",
]
