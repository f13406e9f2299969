"""Texts with labels on their words: where they come from, and which word a token belongs to."""

from headwise.annotations.annotated_text import AnnotatedText as AnnotatedText
from headwise.annotations.annotated_text import Arc as Arc
from headwise.annotations.annotated_text import Link as Link
from headwise.annotations.annotated_text import Mention as Mention
from headwise.annotations.annotated_text import Word as Word

__all__ = ["AnnotatedText", "Arc", "Link", "Mention", "Word"]
