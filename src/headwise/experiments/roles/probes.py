"""What the battery reads: texts with the questions asked of them, from files and from the package itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwise.annotations import AnnotatedText, windows
from headwise.annotations.senses import sense_pairs
from headwise.experiments.roles.repeats import repeats
from headwise.experiments.roles.sense_texts import sense_texts
from headwise.experiments.roles.tokenised import tokenised
from headwise.look.roles.coreference import COREFERENCE
from headwise.look.roles.labelled import Labelled
from headwise.look.roles.links import COPIES_ASKED, MEANING_ASKED, OWN_LABELS, REPEATS
from headwise.look.roles.positions import POSITIONS
from headwise.look.roles.question import Question
from headwise.look.roles.relations import SYNTAX
from headwise.look.roles.tokens import TOKENS_ASKED
from headwise.models import TextModel

SENTENCE_WORDS = (5, 30)  # shorter ones have no choice, longer ones are rare


@dataclass(frozen=True, eq=False)
class Probe:
    """Texts of one source, the questions asked of them, and their control texts where there are such."""

    data: str
    texts: Sequence[Labelled]
    questions: Sequence[Question]
    controls: Sequence[Labelled] = ()


@dataclass(frozen=True, eq=False)
class Sources:
    """What a user gave, by kind: sentences, with trees or without, and texts with labels of their own."""

    name: str
    sentences: Sequence[AnnotatedText] = ()
    labelled: Sequence[AnnotatedText] = ()


def probes_of(model: TextModel, sources: Sequence[Sources], *, causal: bool, seed: int) -> list[Probe]:
    """The user's texts, or without any the package's own sentences; repeats and sense pairs always."""
    found: list[Probe] = []
    for source in sources:
        found += _of_source(model, source, causal)
    cues, controls = (tokenised(model, texts, causal=causal) for texts in sense_texts(sense_pairs()))
    if not any(source.sentences for source in sources):
        found.append(Probe(f"{len(cues)} sentences of headwise", cues, [*POSITIONS, *TOKENS_ASKED]))
    again, fresh = repeats(model, causal=causal, seed=seed)
    return [
        *found,
        Probe(f"{len(cues)} sense pairs", cues, [MEANING_ASKED], controls),
        Probe(f"{len(again)} random sequences", again, [REPEATS, COPIES_ASKED], fresh),
    ]


def _of_source(model: TextModel, source: Sources, causal: bool) -> list[Probe]:
    found = []
    low, high = SENTENCE_WORDS
    sentences = [text for text in source.sentences if low <= len(text.words) <= high]
    if sentences:
        asked = [*POSITIONS, *TOKENS_ASKED, SYNTAX]
        found.append(Probe(source.name, tokenised(model, sentences, causal=causal), asked))
    pieces = [piece for piece in windows(source.sentences) if piece.mentions]
    if pieces:
        found.append(Probe(source.name, tokenised(model, pieces, causal=causal), [COREFERENCE]))
    if source.labelled:
        found.append(Probe(source.name, tokenised(model, source.labelled, causal=causal), [OWN_LABELS]))
    return found
