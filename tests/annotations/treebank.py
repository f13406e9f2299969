"""Small CoNLL-U files for tests, written as rows of what matters."""


def row(number, form="w", head=0, relation="dep", misc="_", part_of_speech="X"):
    return "\t".join([str(number), form, "_", part_of_speech, "_", "_", str(head), relation, "_", misc])


def treebank(folder, *lines, name="a.conllu"):
    """A file of these lines, in which a list is a sentence's rows."""
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# by hand: "I can't stay, Bo said." with a multiword token, an empty node, and a speaker
TALK = [
    "# newdoc id = talk",
    "# speaker = Bo",
    row(1, "I", 4, "nsubj", "Entity=(1-person-new-n-c-1-coref)", "PRON"),
    row("2-3", "can't", "_", "_"),
    row(2, "ca", 4, "aux"),
    row(3, "n't", 4, "advmod:neg"),
    row(4, "stay", 0, "root", "SpaceAfter=No"),
    row(5, ",", 7, "punct"),
    row(6, "Bo", 7, "nsubj", "Entity=(1-person-giv-n-c-1-coref)|Other=5"),
    row("6.1", "then", "_", "_"),
    row(7, "said", 4, "parataxis", "SpaceAfter=No"),
    row(8, ".", 4, "punct"),
    "",
]
