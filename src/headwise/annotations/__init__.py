"""Texts with labels on their words: where they come from, and which word a token belongs to."""

from headwise.annotations.alignment import words_of_tokens
from headwise.annotations.annotated_text import AnnotatedText, Arc, Link, Mention, Word
from headwise.annotations.antecedents import Anaphor, antecedents
from headwise.annotations.conllu_file import read_conllu
from headwise.annotations.merging import words_with_tokens
from headwise.annotations.senses import SensePair, read_sense_pairs, sense_pairs
from headwise.annotations.silver import silver_trees
from headwise.annotations.spans_file import read_labels
from headwise.annotations.windows import windows

__all__ = [
    "Anaphor",
    "AnnotatedText",
    "Arc",
    "Link",
    "Mention",
    "SensePair",
    "Word",
    "antecedents",
    "read_conllu",
    "read_labels",
    "read_sense_pairs",
    "sense_pairs",
    "silver_trees",
    "windows",
    "words_of_tokens",
    "words_with_tokens",
]
