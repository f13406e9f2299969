"""The tutorials' questions, asked of real layers and models; each answer shows itself.

The names below load what they need when they are first used: no command waits for what another one needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwise.experiments.comparison import Comparison as Comparison
    from headwise.experiments.comparison import compare as compare
    from headwise.experiments.encoding import examine_encoding as examine_encoding
    from headwise.experiments.encoding import list_encodings as list_encodings
    from headwise.experiments.equivariance import permute_and_compare as permute_and_compare
    from headwise.experiments.heads import compare_head_counts as compare_head_counts
    from headwise.experiments.inside import Ablation as Ablation
    from headwise.experiments.inside import Inspection as Inspection
    from headwise.experiments.inside import Window as Window
    from headwise.experiments.inside import ablate_heads as ablate_heads
    from headwise.experiments.inside import inspect_text as inspect_text
    from headwise.experiments.inside import zoom as zoom
    from headwise.experiments.model_comparison import ModelComparison as ModelComparison
    from headwise.experiments.model_comparison import compare_in_model as compare_in_model
    from headwise.experiments.result import Result as Result
    from headwise.experiments.word_attention import WordAttention as WordAttention
    from headwise.experiments.word_attention import attention_by_word as attention_by_word

_MODULES = {
    "comparison": ("Comparison", "compare"),
    "encoding": ("examine_encoding", "list_encodings"),
    "equivariance": ("permute_and_compare",),
    "heads": ("compare_head_counts",),
    "inside": ("Ablation", "Inspection", "Window", "ablate_heads", "inspect_text", "zoom"),
    "model_comparison": ("ModelComparison", "compare_in_model"),
    "result": ("Result",),
    "word_attention": ("WordAttention", "attention_by_word"),
}

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


def __getattr__(name: str) -> Any:  # noqa: ANN401
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"headwise.experiments.{module}"), name)
    raise AttributeError(f"module 'headwise.experiments' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
