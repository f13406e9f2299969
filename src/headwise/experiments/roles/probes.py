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
from headwise.look.roles.plan import FEWEST_TEXTS
from headwise.look.roles.positions import POSITIONS
from headwise.look.roles.question import Question
from headwise.look.roles.relations import SYNTAX
from headwise.look.roles.tokens import SEGMENT_ASKED, TOKENS_ASKED
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

    @property
    def asked(self) -> list[AnnotatedText]:
        """The sentences that are neither too short nor too long to be asked of, one by one."""
        low, high = SENTENCE_WORDS
        return [text for text in self.sentences if low <= len(text.words) <= high]

    @property
    def windows(self) -> list[AnnotatedText]:
        """The sentences in longer pieces, those with mentions or with several segments."""
        pieces = windows(self.sentences)
        return [piece for piece in pieces if piece.mentions or len(set(piece.segments) - {""}) > 1]


def probes_of(model: TextModel, sources: Sequence[Sources], *, causal: bool, seed: int) -> list[Probe]:
    """The user's texts, and always repeats and sense pairs; the package's sentences if the user's are few.

    Fewer than 20 are few: no role of positions or tokens could be told from chance on them.
    """
    found: list[Probe] = []
    for source in sources:
        found += _of_source(model, source, causal)
    cues, controls = (tokenised(model, texts, causal=causal) for texts in sense_texts(sense_pairs()))
    if all(len(source.asked) < FEWEST_TEXTS for source in sources):
        found.append(Probe(_of_package(len(cues), sources), cues, [*POSITIONS, *TOKENS_ASKED]))
    again, fresh = repeats(model, causal=causal, seed=seed)
    return [
        *found,
        Probe(f"{len(cues)} sense pairs", cues, [MEANING_ASKED], controls),
        Probe(f"{len(again)} random sequences", again, [REPEATS, COPIES_ASKED], fresh),
    ]


def _of_package(count: int, sources: Sequence[Sources]) -> str:
    """What the package's sentences are called, and why they are read where a user gave some."""
    given = [f"{source.name} has {len(source.asked)}" for source in sources if source.sentences]
    low, high = SENTENCE_WORDS
    why = f" ({', '.join(given)} of {low} to {high} words; {FEWEST_TEXTS} are needed)" if given else ""
    return f"{count} sentences of headwise{why}"


def _of_source(model: TextModel, source: Sources, causal: bool) -> list[Probe]:
    found = []
    if sentences := source.asked:
        asked = [*POSITIONS, *TOKENS_ASKED, SYNTAX]
        found.append(Probe(_kept(source), tokenised(model, sentences, causal=causal), asked))
    if pieces := source.windows:
        asked = [COREFERENCE, SEGMENT_ASKED]
        found.append(Probe(source.name, tokenised(model, pieces, causal=causal), asked))
    if source.labelled:
        asked = [OWN_LABELS, SEGMENT_ASKED]
        found.append(Probe(source.name, tokenised(model, source.labelled, causal=causal), asked))
    return found


def _kept(source: Sources) -> str:
    """The source, with how many of its sentences are read where that is not all of them."""
    kept, given = len(source.asked), len(source.sentences)
    if kept == given:
        return source.name
    low, high = SENTENCE_WORDS
    return f"{source.name} ({kept:,} of {given:,} sentences, those of {low} to {high} words)"
