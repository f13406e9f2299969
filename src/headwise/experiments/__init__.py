"""The tutorials' questions, asked of real numbers and real models. Stands above the rooms."""

from headwise.experiments.compare import Comparison, compare
from headwise.experiments.model_comparison import ModelComparison, compare_in_model
from headwise.experiments.result import Result
from headwise.experiments.word_attention import WordAttention, attention_by_word

__all__ = [
    "Comparison",
    "ModelComparison",
    "Result",
    "WordAttention",
    "attention_by_word",
    "compare",
    "compare_in_model",
]
