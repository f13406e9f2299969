"""Texts with labels on their words: where they come from, and which word a token belongs to."""

from headwise.annotations.alignment import words_of_tokens
from headwise.annotations.annotated_text import AnnotatedText, Arc, Link, Mention, Word
from headwise.annotations.antecedents import Anaphor, antecedents
from headwise.annotations.conllu_file import read_conllu
from headwise.annotations.silver import silver_trees
from headwise.annotations.spans_file import read_labels
from headwise.annotations.windows import windows

__all__ = [
    "Anaphor",
    "AnnotatedText",
    "Arc",
    "Link",
    "Mention",
    "Word",
    "antecedents",
    "read_conllu",
    "read_labels",
    "silver_trees",
    "windows",
    "words_of_tokens",
]
